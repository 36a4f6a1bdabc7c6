import { type NodeReport } from '../../lib/services/node-report.ts';
import { listDiffering } from './list-differing.ts';
import { type MultiMap } from './multi-map.ts';

/** The virtual IPs of the pools whose seats a node has taken or left, or holds in another mode, each with such a seat. */
export function listSeated(
  before: NodeReport | undefined,
  after: NodeReport | null,
  poolToVirtualIps: MultiMap,
): [name: string, seat: number][] {
  const [old, now] = [before?.seats ?? [], after?.seats ?? []];
  const seats = before?.mode === after?.mode ? listDiffering(old, now) : [...new Set([...old, ...now])];
  return seats.flatMap((seat) => {
    const at = seat.lastIndexOf('/');
    const index = Number(seat.slice(at + 1));
    return poolToVirtualIps.get(seat.slice(0, at)).map((name): [string, number] => [name, index]);
  });
}
