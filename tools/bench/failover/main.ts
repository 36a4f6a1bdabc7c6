/**
 * How long clients suffer when a part of the control plane fails, with vipnat and with what else there is. Run by
 * `scripts/bench failover`; what it measures and how is in docs/benchmarks.md.
 */
import { type LabOptions, defaultOptions } from '../../lab/settings/options.ts';
import { runBench, say } from '../shared/run.ts';
import { parseBenchOptions, type BenchOptions } from './options.ts';
import { requireHost } from '../../lab/settings/requirements.ts';
import { requireHaproxy } from '../shared/programs.ts';
import { removeLabOnSignal } from '../../lab/control-plane/interrupt.ts';
import { buildComponents } from '../../lab/build/build.ts';
import { removeRounds, appendRound, pickRounds } from './record.ts';
import { recordHello } from '../../../test/support/network/hello.ts';
import { writeReport } from './report.ts';
import { type SetUpName, setUps } from './set-ups.ts';
import { type FaultName, chooseMaster, faults } from './faults.ts';
import { prepareClient } from '../shared/client.ts';
import type { Lab } from '../../lab/control-plane/lab.ts';
import { type Outcome, measureRound } from './round.ts';
import { waitForSteady } from './steady.ts';
import { BusyProcessors } from '../shared/busy.ts';

const labOptions: LabOptions = { ...defaultOptions, name: `bench-${process.pid}` };

await runBench(() => measure(parseBenchOptions(process.argv.slice(2))));

async function measure(options: BenchOptions): Promise<void> {
  requireHost(labOptions);
  if (options.setUps.includes('haproxy')) {
    requireHaproxy(', or leave it out: --only vipnat,kube-proxy');
  }
  removeLabOnSignal(labOptions.name);
  await buildComponents(labOptions.kubernetes, say);
  if (options.isFresh) removeRounds(options);
  const hello = await recordHello();
  for (const setUp of options.setUps) await measureSetUp(setUp, options, hello);
  say(`wrote ${await writeReport(labOptions.kubernetes, options.isBusy)}`);
}

async function measureSetUp(
  setUp: SetUpName,
  { faults: chosen, rounds, isBusy }: BenchOptions,
  hello: string,
): Promise<void> {
  const missing = setUps[setUp].faults.flatMap((fault) => {
    const onRecord = countRounds({ setUp, fault, isBusy });
    return chosen.includes(fault) ? Array<FaultName>(Math.max(0, rounds - onRecord)).fill(fault) : [];
  });
  if (missing.length === 0) {
    say(`${setUp}: all rounds are on record, --fresh measures them again`);
    return;
  }
  say(`${setUp}: bringing up its lab for ${missing.length} rounds`);
  const lab = await setUps[setUp].raise(labOptions);
  try {
    await prepareClient(lab);
    for (const fault of missing) {
      const round = { setUp, fault, isBusy };
      const outcome = await runRound(lab, round, hello);
      appendRound({ ...round, at: new Date().toISOString(), ...outcome });
      say(`${setUp}, ${fault}, ${countRounds(round)} of ${rounds}: ${describe(outcome)}`);
    }
  } finally {
    await lab.down();
  }
}

interface Round {
  readonly setUp: SetUpName;
  readonly fault: FaultName;
  readonly isBusy: boolean;
}

async function runRound(lab: Lab, { setUp, fault, isBusy }: Round, hello: string): Promise<Outcome> {
  await waitForSteady(lab, setUp);
  const master = await chooseMaster(lab, faults[fault]);
  const processors = isBusy ? new BusyProcessors() : null;
  const measuring = measureRound(lab, { port: setUps[setUp].port, hello }, faults[fault], master);
  const outcome = await measuring.finally(() => processors?.end());
  await faults[fault].mend(lab, master);
  return outcome;
}

function countRounds({ setUp, fault, isBusy }: Round): number {
  return pickRounds({ setUps: [setUp], faults: [fault], isBusy }).length;
}

function describe({
  sent,
  failed,
  windowMs,
  slowedMs,
  isOpen,
  watchesMs,
  silentMs,
  errors,
}: Outcome): string {
  const known = [...watchesMs, ...silentMs].filter((milliseconds) => milliseconds !== null);
  const kinds = Object.entries(errors).map(([error, count]) => `${count} ${error}`);
  return [
    `${failed} of ${sent} connections failed${kinds.length === 0 ? '' : ` (${kinds.join(', ')})`}`,
    `for ${windowMs} ms (failed or slow: ${slowedMs} ms)${isOpen ? ' and on' : ''}`,
    `${known.length} of ${watchesMs.length + silentMs.length} watches knew after ${Math.max(0, ...known)} ms`,
  ].join(', ');
}
