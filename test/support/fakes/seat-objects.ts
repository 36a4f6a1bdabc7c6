import {
  type Seat,
  toAnchor,
  type AddressPool,
  addressPools,
  type VirtualIp,
  virtualIps,
} from '../../../lib/api/vipnat.ts';
import { type Family, parseAddress } from '../../../lib/net.ts';

/** A seat in a network. Its numbers are above its index. */
export function makeSeat(index: number, network: string, nodes: readonly string[]): Seat {
  const family: Family = parseAddress(network)?.family ?? 'ipv4';
  return { index, anchor: toAnchor(family, index + 1), vrid: index + 1, network, nodes: [...nodes] };
}

/** A pool as the API has it, with its seats. */
export function makePool(
  name: string,
  seats: readonly Seat[],
  spec: Partial<AddressPool['spec']> = {},
): AddressPool {
  return addressPools.schema.parse({
    metadata: { name, uid: `uid-${name}`, resourceVersion: '1' },
    spec: { addresses: [], ...spec },
    status: { seats },
  });
}

/** A VirtualIP as the API has it, by its object's name. */
export function makeVirtualIp(
  name: string,
  seat: `${string}/${number}`,
  { services = 1, isOthers = false, isNew = false } = {},
): VirtualIp {
  const [pool, index] = seat.split('/');
  const users = Array.from({ length: services }, (_, at) => {
    return { namespace: 'shop', name: `web-${at}`, uid: `uid-${at}` };
  });
  return virtualIps.schema.parse({
    metadata: { name, uid: `uid-${name}`, resourceVersion: '1' },
    spec: { pool, seat: Number(index), services: users },
    status: {
      conditions: [
        { type: 'AddressInUse', status: isOthers ? 'True' : 'False' },
        ...(isNew ? [] : [{ type: 'Announced', status: 'True' }]),
      ],
    },
  });
}
