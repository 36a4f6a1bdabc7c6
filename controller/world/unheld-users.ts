import { parseObjectName } from '../../lib/services/address-name.ts';
import { type NodeReport } from '../../lib/services/node-report.ts';
import { type VirtualIp } from '../../lib/services/objects.ts';
import { listUsers } from './object-parts.ts';

/** The seats and addresses of which a node says something else than before: that it cannot hold them, and why. Pure. */
export function listChangedUnheld(
  before: NodeReport | undefined,
  after: NodeReport | null,
): ReadonlySet<string> {
  const [old, now] = [before?.unheld ?? {}, after?.unheld ?? {}];
  const names = [...Object.keys(old), ...Object.keys(now)];
  return new Set(names.filter((name) => old[name] !== now[name]));
}

/** The keys of the Services that have an address of these, or one of these seats. Pure. */
export function listUnheldUsers(
  virtualIps: ReadonlyMap<string, VirtualIp>,
  names: ReadonlySet<string>,
): string[] {
  if (names.size === 0) return [];
  const users = [...virtualIps].flatMap(([name, virtualIp]) => {
    const { pool, seat } = virtualIp.spec;
    const isNamed = names.has(`${pool}/${seat}`) || names.has(parseObjectName(name)?.text ?? '');
    return isNamed ? listUsers(virtualIp) : [];
  });
  return [...new Set(users)];
}
