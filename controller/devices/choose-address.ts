/** Which address a Service is to have on a device. There is no record of it but the Service's status and the device itself. */
import { type Service, readRequests } from '../../lib/api/service.ts';
import type { LoadBalancerDevice } from '../../lib/api/device.ts';
import {
  type Family,
  type Address,
  type AddressRange,
  mergeRanges,
  parseRange,
  parseAddress,
  contains,
  toObjectName,
} from '../../lib/net.ts';
import type { DeviceProblem } from '../cache/known.ts';
import type { ClusterView } from '../cache/cache.ts';
import { getIngress, findBalancer, isUsed } from '../cache/parts.ts';
import { isOfDevice } from './service-kind.ts';

/** Whose address is to be chosen, where. */
export interface AddressRequest {
  readonly service: Service;
  readonly device: LoadBalancerDevice;
  readonly family: Family;
  /** What the device has for the Service already, in canonical text. */
  readonly present: readonly string[];
}

/** What was chosen. A problem together with an address means that the address is not the one that was asked for. */
export interface AddressChoice {
  readonly address: Address | null;
  readonly problem: DeviceProblem | null;
}

/** The address that is asked for; else the one that the Service has; else the first one that nobody has. Pure, and the same each time. */
export function chooseDeviceAddress(request: AddressRequest, view: ClusterView): AddressChoice {
  const { service, family } = request;
  const requests = readRequests(service);
  const asked = requests.addresses[family];
  const held = findHeld(request, view);
  if (asked === undefined && requests.problem !== null)
    return { address: held, problem: { reason: 'AddressesMalformed', message: `${requests.problem}.` } };
  if (asked !== undefined) {
    const problem = judgeAsked(request, { asked, held }, view);
    return { address: problem === null ? asked : held, problem };
  }
  return held === null ? chooseFree(request, view) : { address: held, problem: null };
}

/** Other devices that have not been read since this process leads: what they have is known by nobody, unless a status has it. */
function listUnread(
  { metadata: own }: LoadBalancerDevice,
  { devices, deviceReports }: ClusterView,
): { readonly name: string; readonly ranges: readonly AddressRange[] }[] {
  return [...devices.values()].flatMap((device) => {
    const { name } = device.metadata;
    const isRead = typeof deviceReports.get(name)?.balancers === 'number';
    return name === own.name || isRead ? [] : [{ name, ranges: listRanges(device) }];
  });
}

function listRanges({ spec }: LoadBalancerDevice): AddressRange[] {
  return mergeRanges(spec.addresses.flatMap((text) => parseRange(text) ?? []));
}

/**
 * One that it has there stays, whatever the device's ranges are now. One that its status has from elsewhere must be the device's, and one that was
 * claimed for it before a call that failed: nobody else can have got it.
 */
function findHeld({ service, device, family, present }: AddressRequest, view: ClusterView): Address | null {
  const [own = null] = present
    .flatMap((text) => parseAddress(text) ?? [])
    .filter((one) => one.family === family);
  if (own !== null) return own;
  const published = getIngress(service)
    .filter(isOfDevice)
    .flatMap(({ ip }) => parseAddress(ip ?? '') ?? []);
  const reserved = (findBalancer(view, device.metadata.name, service)?.addresses ?? []).flatMap(
    (text) => parseAddress(text) ?? [],
  );
  const ranges = listRanges(device);
  const isGood = (address: Address) =>
    address.family === family &&
    ranges.some((range) => contains(range, address)) &&
    findOwner(service, address, view) === null;
  return [...published, ...reserved].find(isGood) ?? null;
}

function judgeAsked(
  { service, device }: AddressRequest,
  { asked, held }: { readonly asked: Address; readonly held: Address | null },
  view: ClusterView,
): DeviceProblem | null {
  const { name } = device.metadata;
  if (!listRanges(device).some((range) => contains(range, asked)))
    return {
      reason: 'OutsideDevice',
      message: `The device ${name} does not have ${asked.text}: see its spec.addresses.`,
    };
  const unread = listUnread(device, view).find(({ ranges }) =>
    ranges.some((range) => contains(range, asked)),
  );
  if (unread !== undefined && held?.text !== asked.text) {
    const message = `The device ${unread.name} has not said yet whether it has ${asked.text}, which it may have.`;
    return { reason: 'WaitingForDevice', message };
  }
  const owner = findOwner(service, asked, view) ?? findElder(service, asked, view);
  return owner === null ? null : { reason: 'AddressTaken', message: `${owner} has ${asked.text}.` };
}

function chooseFree({ device, family }: AddressRequest, view: ClusterView): AddressChoice {
  const { name } = device.metadata;
  const others = listUnread(device, view).flatMap(({ ranges }) => ranges);
  const address = view.takenAddresses.findFree(name, family, others);
  if (address !== null) return { address, problem: null };
  const message = `The device ${name} has no free ${family} address: see its spec.addresses.`;
  return { address, problem: { reason: 'NoFreeAddress', message } };
}

/** Who else has an address: a clause. Whoever has it keeps it, however young. */
function findOwner(service: Service, address: Address, view: ClusterView): string | null {
  const { text } = address;
  const [publisher] = listOthers(view.addressToPublishers.get(text), service);
  if (publisher !== undefined) return `The Service ${publisher}`;
  for (const key of view.addressToBalancers.get(text) ?? []) {
    const balancer = view.deviceBalancers.get(key);
    if (balancer === undefined || balancer.id.uid === service.metadata.uid) continue;
    if (balancer.deviceStatus === 'absent') continue;
    return `The Service ${balancer.id.namespace}/${balancer.id.name}, on the device ${balancer.device},`;
  }
  const virtualIp = view.virtualIps.get(toObjectName(address));
  return virtualIp !== undefined && isUsed(virtualIp) ? `The VirtualIP ${virtualIp.metadata.name}` : null;
}

/** Of those that ask for the same, and do not have it, the oldest gets it. */
function findElder(
  service: Service,
  { text }: Address,
  { addressToAskers, services }: ClusterView,
): string | null {
  const elder = listOthers(addressToAskers.get(text), service).find((key) => {
    const other = services.get(key);
    return other !== undefined && rankAge(other) < rankAge(service);
  });
  return elder === undefined ? null : `The older Service ${elder}`;
}

function rankAge({ metadata: { creationTimestamp, uid } }: Service): string {
  return `${creationTimestamp ?? ''} ${uid}`;
}

function listOthers(keys: ReadonlySet<string> | undefined, { metadata }: Service): string[] {
  const own = `${metadata.namespace}/${metadata.name}`;
  return [...(keys ?? [])].filter((key) => key !== own);
}
