import { type DeviceDrain } from '../../lib/services/devices.ts';
import { toTime } from '../cache/object-parts.ts';
import { type HeldBalancer } from './held-balancer.ts';

/** A status has so many of them. */
const maxDrains = 100;

/** The members that drain, the longest ones first. `dateOffsetMs` makes a date of a moment of the clock. */
export function listDrains(draining: readonly HeldBalancer[], dateOffsetMs: number): readonly DeviceDrain[] {
  const all = draining.flatMap(({ id: { namespace, name }, drains }) =>
    [...drains].map(([member, drain]) => ({ service: `${namespace}/${name}`, member, ...drain })),
  );
  const longest = all.sort((one, other) => one.sinceMs - other.sinceMs).slice(0, maxDrains);
  return longest.map(({ service, member, sinceMs, sessions }) => {
    return { service, member, since: toTime(dateOffsetMs + sinceMs), sessions };
  });
}
