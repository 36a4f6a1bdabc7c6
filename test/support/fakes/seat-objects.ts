import { addressPools, type AddressPool, type VirtualIp, virtualIps } from '../../../lib/services/objects.ts';

/** A pool as the API has it, with its seats. */
export function makePool(
  name: string,
  seats: readonly { readonly index: number; readonly anchors: string[]; readonly nodes: string[] }[],
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
  { services = 1, isOthers = false } = {},
): VirtualIp {
  const [pool, index] = seat.split('/');
  return virtualIps.schema.parse({
    metadata: { name, uid: `uid-${name}`, resourceVersion: '1' },
    spec: {
      pool,
      seat: Number(index),
      services: Array.from({ length: services }, (_, at) => ({
        namespace: 'shop',
        name: `web-${at}`,
        uid: `uid-${at}`,
      })),
    },
    status: { conditions: [{ type: 'AddressInUse', status: isOthers ? 'True' : 'False' }] },
  });
}
