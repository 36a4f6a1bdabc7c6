import { type NodeReport } from '../../lib/services/node-report.ts';
import { type World } from './world.ts';
import { listOtherInUse } from './in-use.ts';
import { type StepKey } from './keys.ts';
import { type MultiMap } from './multi-map.ts';
import { toPoolKey, toServiceKey, toVirtualIpKey } from './object-parts.ts';
import { listProtocolUsers } from './protocol-users.ts';
import { listSeated } from './seated.ts';
import { listChangedUnheld, listUnheldUsers } from './unheld-users.ts';

/** The keys that are to be looked at when a node reports something else than before, or nothing any more. Pure. */
export function listReportUsers(
  before: NodeReport | undefined,
  after: NodeReport | null,
  {
    services,
    virtualIps,
    pools,
    poolToVirtualIps,
  }: Pick<World, 'services' | 'virtualIps' | 'pools'> & { readonly poolToVirtualIps: MultiMap },
): StepKey[] {
  const unheld = listChangedUnheld(before, after);
  // A drain leaves out who can serve only while somebody else can.
  const touched = before?.mode === after?.mode && unheld.size === 0 ? [] : [...pools.keys()];
  return [
    ...listOtherInUse(before, after).map(toVirtualIpKey),
    ...listSeated(before, after, poolToVirtualIps)
      .filter(([name, seat]) => virtualIps.get(name)?.spec.seat === seat)
      .map(([name]) => toVirtualIpKey(name)),
    ...listUnheldUsers(virtualIps, unheld).map(toServiceKey),
    ...touched.map(toPoolKey),
    ...listProtocolUsers(services, before, after).map(toServiceKey),
  ];
}
