import { isLong } from '../../../support/jest/extent.ts';
import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { listFinders } from '../../../support/lab/witnesses.ts';
import { lostMs, connectWitnessed, type WitnessedReport } from '../../../support/network/witness.ts';
import { webPort } from '../../../../tools/lab/services/web.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { tell } from '../../../support/lab/test-lab.ts';

export interface AddressReport {
  readonly sent: number;
  /** Connections that failed, each by what went wrong and when, and how many needed a second SYN. */
  readonly failed: readonly string[];
  /** When the last one that failed began, in milliseconds since the epoch; before all of it when none did. */
  readonly lastFailedAt: number;
}

export interface AddressLoad {
  readonly address: string;
  readonly what: string;
  /** The node that is taken away: it is no witness of the machine. */
  readonly stricken?: string;
  /** What takes longer has failed; 10 s when left out, which only a lost connection takes. */
  readonly limitMs?: number;
}

const perSecond = isLong ? 500 : 100;
const longestMs = 30 * 60_000;

/** The client runs steadily by then. */
const leadMs = 1000;

/** Does something while the client outside opens connections to a Service's address, until none fails any more. Tells what it saw. */
export async function connectWhile(
  lab: NodeLab,
  load: AddressLoad,
  act: () => Promise<void>,
): Promise<AddressReport> {
  const [report] = await connectToEachWhile(lab, [load], act);
  if (report === undefined) throw new Error('no report of one load');
  return report;
}

/** The same with several addresses, which share the connections of a second. Answers a report for each. */
export async function connectToEachWhile(
  lab: NodeLab,
  loads: readonly AddressLoad[],
  act: () => Promise<void>,
): Promise<AddressReport[]> {
  const witnesses = (await listFinders(lab, loads[0]?.stricken)).slice(0, 1);
  const rate = Math.ceil(perSecond / loads.length);
  const running = loads.map(({ address, limitMs = lostMs }) =>
    connectWitnessed(
      (role) => lab.seat('client', `services ${address} ${role}`),
      { host: address, port: webPort, perSecond: rate, durationMs: longestMs, limitMs },
      witnesses,
    ),
  );
  const end = () => Promise.all(running.map((load) => load.end()));
  await sleep(leadMs);
  try {
    await act();
  } catch (error) {
    await end();
    throw error;
  }
  const reports = await end();
  return reports.map((report, at) => describe(loads[at]?.what ?? '', report));
}

function describe(what: string, report: WitnessedReport): AddressReport {
  const { sent, failures, lostSyns, slowAtMs, isQuiet, startedAt } = report;
  const failed = [
    ...failures.map(({ error, atMs }) => `${error} after ${atMs.toFixed(0)} ms`),
    ...(lostSyns === 0 ? [] : [`${lostSyns} by a second SYN`]),
    ...(isQuiet ? [] : ['it never became quiet']),
  ];
  const lastMs = failures.at(-1)?.atMs ?? 0;
  const failingMs = lastMs - (failures[0]?.atMs ?? 0);
  tell(
    `Services, ${what}: ${failures.length} of ${sent} connections failed, for ${failingMs.toFixed(0)} ms; ${slowAtMs.length} took over a second`,
  );
  return { sent, failed, lastFailedAt: startedAt + lastMs };
}
