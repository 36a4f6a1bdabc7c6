/**
 * How long the addresses of Services are away when the node that holds them fails, with vipnat and with MetalLB. Run by
 * `scripts/bench takeover`; what it measures and how is in docs/benchmarks.md.
 */
import { type LabOptions, defaultOptions } from '../../lab/settings/options.ts';
import { runBench, say } from '../shared/run.ts';
import { parseTakeoverOptions, type TakeoverOptions } from './options.ts';
import { requireHost } from '../../lab/settings/requirements.ts';
import { removeLabOnSignal } from '../../lab/control-plane/interrupt.ts';
import { buildComponents, buildSpeaker } from '../../lab/build/build.ts';
import { buildProgram } from '../shared/go-program.ts';
import { record } from './record.ts';
import { writeReport } from './report.ts';
import { raiseField, type Field, openClient } from './ground.ts';
import { listServices, nodeNames } from './objects.ts';
import { type SetUpName, setUps } from './set-ups.ts';
import type { FaultName } from './faults.ts';
import { shuffle } from '../shared/shuffle.ts';
import { startNode, stopNode } from './node.ts';
import { measureRound, type Outcome } from './round.ts';

const labOptions: LabOptions = { ...defaultOptions, name: `takeover-${process.pid}` };

await runBench(() => measure(parseTakeoverOptions(process.argv.slice(2))));

async function measure(options: TakeoverOptions): Promise<void> {
  requireHost(labOptions);
  removeLabOnSignal(labOptions.name);
  await buildComponents(labOptions.kubernetes, say);
  if (options.setUps.includes('metallb')) await buildSpeaker(say);
  await buildProgram('services');
  const { setUps: chosen, faults, counts, isFresh } = options;
  if (isFresh) {
    record.remove(
      (one) => chosen.includes(one.setUp) && faults.includes(one.fault) && counts.includes(one.addresses),
    );
  }
  if (counts.some((count) => listMissing(options, count).length > 0)) await measureAll(options);
  else say('all rounds are on record, --fresh measures them again');
  say(`wrote ${await writeReport(labOptions.kubernetes)}`);
}

async function measureAll(options: TakeoverOptions): Promise<void> {
  const field = await raiseField(labOptions, options.setUps.includes('metallb'));
  try {
    for (const count of options.counts) {
      const missing = listMissing(options, count);
      if (missing.length === 0) continue;
      await field.writer.growTo(listServices(count));
      for (const block of missing) await measureBlock(field, block);
    }
  } finally {
    await field.cluster.down();
  }
}

/** One start of a set-up, and a round of each of some faults. */
interface Block {
  readonly setUp: SetUpName;
  readonly faults: readonly FaultName[];
}

/** One after the other in rounds, the set-ups of each round in random order. */
function listMissing({ setUps: chosen, faults, rounds }: TakeoverOptions, addresses: number): Block[] {
  const known = record.read().filter((round) => round.addresses === addresses);
  const count = (setUp: SetUpName, fault: FaultName) =>
    known.filter((one) => one.setUp === setUp && one.fault === fault).length;
  return Array.from({ length: rounds }, (_, round) =>
    shuffle(chosen).flatMap((setUp) => {
      const missing = faults.filter((fault) => count(setUp, fault) <= round);
      return missing.length === 0 ? [] : [{ setUp, faults: missing }];
    }),
  ).flat();
}

async function measureBlock(field: Field, { setUp, faults }: Block): Promise<void> {
  const addresses = field.writer.services.length;
  const client = await openClient(field);
  try {
    await Promise.all(nodeNames.map((node) => startNode(field, node, setUp)));
    for (const fault of faults) {
      const outcome = await measureRound(field, client, { setUp, fault });
      record.append({ setUp, fault, addresses, at: new Date().toISOString(), ...outcome });
      say(`${addresses} addresses, ${fault}, ${setUps[setUp].title}: ${describe(outcome)}`);
    }
  } finally {
    client.probe.close();
    await Promise.all(nodeNames.map((node) => stopNode(field, node, setUp)));
  }
}

function describe({ allMs, medianMs, lostLater, load }: Outcome): string {
  const all = allMs === null ? 'not all answer' : `all answer after ${allMs.toFixed(0)} ms`;
  return `${all}, half of them after ${medianMs.toFixed(0)} ms; ${lostLater} requests lost later (load ${load.toFixed(1)})`;
}
