import type { NodeLab } from '../../lab/nodes/node-lab.ts';
import { type Outage, measureOutage } from './outage.ts';
import { outsider } from '../../../test/support/network/layout.ts';
import { webPort } from '../../lab/services/web.ts';
import { setTimeout as sleep } from 'node:timers/promises';

/** Five nodes share the machine's processors with this. */
const perSecond = 100;

const longestMs = 240_000;

/** The client runs steadily by then. */
const leadMs = 1500;

/** A connection that gets no answer fails after a second: before, nothing is known of an outage. */
const noticeMs = 3000;

/**
 * Opens new connections to an address from outside while something is done, until none has failed for 2.5 s. The outage is counted from the
 * beginning of what is done, or from when that calls `mark`.
 */
export async function underLoad(
  lab: NodeLab,
  address: string,
  act: (mark: () => void) => Promise<void>,
): Promise<Outage> {
  const seat = lab.seat(outsider.name, 'load');
  const target = { host: address, port: webPort };
  const report = seat.connectAtRate({ ...target, perSecond, durationMs: longestMs });
  await sleep(leadMs);
  let actedAtMs = 0;
  const mark = () => {
    actedAtMs = performance.timeOrigin + performance.now();
  };
  mark();
  await act(mark);
  await sleep(noticeMs);
  seat.settle();
  return measureOutage(await report, actedAtMs);
}
