import { type Address } from '../../lib/address/address.ts';
import { parseObjectName } from '../../lib/services/address-name.ts';
import { type AddressUser, type VirtualIp } from '../../lib/services/objects.ts';
import { type Service } from '../../lib/services/services.ts';
import { type World } from '../cache/world.ts';

/** An address that a Service has, or gives back. */
export interface Claim {
  readonly address: Address;
  readonly virtualIp: VirtualIp;
}

/** The addresses of one Service, in the order of their names. */
export interface Claims {
  readonly held: readonly Claim[];
  readonly leaving: readonly Claim[];
}

/** Those of the Service itself, not of another one that had its name. */
export function findClaims({ metadata: { namespace, name, uid } }: Service, world: World): Claims {
  const names = [...(world.serviceToVirtualIps.get(`${namespace}/${name}`) ?? [])].sort();
  const claims = names.flatMap((each): Claim[] => {
    const [address, virtualIp] = [parseObjectName(each), world.virtualIps.get(each)];
    return address === null || virtualIp === undefined ? [] : [{ address, virtualIp }];
  });
  const has = (users: readonly AddressUser[]) => users.some((user) => user.uid === uid);
  return {
    held: claims.filter(({ virtualIp }) => has(virtualIp.spec.services)),
    leaving: claims.filter(({ virtualIp }) => has(virtualIp.spec.leaving)),
  };
}

/** What stands in a VirtualIP for a Service. */
export function toUser({ metadata: { namespace, name, uid } }: Service): AddressUser {
  return { namespace, name, uid };
}

/** The fields with which Services begin to give an address back: nodes are to forget it for them. */
export function startLeaving(
  { spec }: VirtualIp,
  uids: ReadonlySet<string>,
): Pick<VirtualIp['spec'], 'services' | 'leaving'> {
  const isGoing = ({ uid }: AddressUser) => uids.has(uid);
  return {
    services: spec.services.filter((user) => !isGoing(user)),
    leaving: [...spec.leaving.filter((user) => !isGoing(user)), ...spec.services.filter(isGoing)],
  };
}
