/** What of Services, slices and devices the cache finds others by. */
import { parseRange } from '../../lib/services/ranges.ts';
import { chooseDevice, listHolders, type LoadBalancerDevice } from '../../lib/services/devices.ts';
import { type EndpointSlice, type Service, serviceNameLabel } from '../../lib/services/services.ts';
import { readWishes } from '../../lib/services/wishes.ts';
import { type ReservedRange } from './judge-pools.ts';
import { type Known, type Settings } from './known.ts';

/** The devices that a Service chooses, or that may have something of it. */
export function listDevicesOf(service: Service, { defaultDevice }: Settings): string[] {
  const chosen = chooseDevice(service, defaultDevice);
  return [...new Set([...(chosen === null ? [] : [chosen]), ...listHolders(service)])];
}

/** The addresses that a Service asks a device for, in canonical text. */
export function listAsked(service: Service, { defaultDevice }: Settings): string[] {
  if (chooseDevice(service, defaultDevice) === null) return [];
  return Object.values(readWishes(service).addresses).map(({ text }) => text);
}

/** The key of the Service of an EndpointSlice. */
export function listOwners({ metadata: { namespace, labels } }: EndpointSlice): string[] {
  const owner = labels?.[serviceNameLabel];
  return owner === undefined ? [] : [`${namespace}/${owner}`];
}

/** A device's addresses: no pool may have them, too. */
export function listOfDevice(device: LoadBalancerDevice | null): ReservedRange[] {
  if (device === null) return [];
  const owner = `the LoadBalancerDevice ${device.metadata.name}`;
  return device.spec.addresses.flatMap((text) => {
    const range = parseRange(text);
    return range === null ? [] : [{ range, owner }];
  });
}

/** What a device has of a Service, as it was said last; undefined where nothing was. */
export function findBalancer(
  { deviceBalancers }: Pick<Known, 'deviceBalancers'>,
  device: string,
  { metadata: { uid } }: Service,
): ReturnType<Known['deviceBalancers']['get']> {
  return deviceBalancers.get(`${device} ${uid}`);
}
