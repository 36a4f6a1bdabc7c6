import { setTimeout as sleep } from 'node:timers/promises';
import { type NodeLab } from '../../../../lab/nodes/node-lab.ts';
import { webPort } from '../../../../lab/services/web.ts';
import { isLong } from '../../../support/jest/extent.ts';
import { tell } from '../../../support/lab/test-lab.ts';

/** What a client outside saw of an address. */
export interface AddressReport {
  readonly sent: number;
  /** Connections that were not there within 3 s, each by what went wrong and when. */
  readonly failed: readonly string[];
  /** From the start of the first one that failed to the start of the last one, in milliseconds. */
  readonly failingMs: number;
  /** How many took more than a second: their first packet was lost. */
  readonly slow: number;
}

/** New connections a second. */
const perSecond = isLong ? 500 : 100;

const longestMs = 5 * 60_000;

/** The client runs steadily by then. */
const leadMs = 1000;

/** A lost first packet comes again after one second. */
const limitMs = 3000;

/** Does something while the client outside opens connections to a Service's address, until none fails any more. Tells what it saw. */
export async function connectWhile(
  lab: NodeLab,
  { address, what }: { readonly address: string; readonly what: string },
  act: () => Promise<void>,
): Promise<AddressReport> {
  const seat = lab.seat('client', 'services');
  const target = { host: address, port: webPort };
  const connects = seat.connectAtRate({ ...target, perSecond, durationMs: longestMs, limitMs });
  await sleep(leadMs);
  await act().finally(() => {
    seat.settle();
  });
  const { sent, failures, slowAtMs, isQuiet } = await connects;
  const real = failures.filter(({ error }) => error !== 'EADDRINUSE');
  const failed = real.map(({ error, atMs }) => `${error} after ${atMs.toFixed(0)} ms`);
  const failingMs = (real.at(-1)?.atMs ?? 0) - (real[0]?.atMs ?? 0);
  tell(
    `Services, ${what}: ${failed.length} of ${sent} connections failed, for ${failingMs.toFixed(0)} ms; ${slowAtMs.length} took over a second`,
  );
  return {
    sent,
    failed: isQuiet ? failed : [...failed, 'it never became quiet'],
    failingMs,
    slow: slowAtMs.length,
  };
}
