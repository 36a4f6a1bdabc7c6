import type { Rounds } from './record.ts';
import type { NodeLab } from '../../lab/nodes/node-lab.ts';
import { parseRunOptions, listMissingRounds } from './options.ts';
import { type LabOptions, defaultOptions } from '../../lab/settings/options.ts';
import { requireHost } from '../../lab/settings/requirements.ts';
import { claimLab } from '../../lab/control-plane/claim.ts';
import { removeLabOnSignal } from '../../lab/control-plane/interrupt.ts';
import { buildComponents, buildNodeComponents } from '../../lab/build/build.ts';
import { say } from './run.ts';
import { raiseNodes } from '../../lab/nodes/raise.ts';
import { prepareClient } from './client.ts';
import { installServices } from '../../lab/services/install.ts';

/** A bench of Services on a lab of real nodes: rounds with set-ups that take turns. */
export interface NodeBench<SetUp extends string, Outcome> {
  /** Of the record, and of the lab. */
  readonly name: string;
  readonly setUpNames: readonly [SetUp, ...SetUp[]];
  readonly record: Rounds<Outcome & { readonly setUp: SetUp; readonly at: string }>;
  /** Once, before the first round, with vipnat's Services installed. */
  prepare?(lab: NodeLab): Promise<void>;
  /** One round. The next one begins when it has ended. */
  measureRound(lab: NodeLab, setUp: SetUp): Promise<Outcome>;
  /** What came of a round, for whoever waits. */
  describe(setUp: SetUp, outcome: Outcome): string;
  /** Writes the report, and answers the file's path. */
  writeReport(kubernetes: string): Promise<string>;
}

/**
 * Measures the rounds that are not on record yet, by words as typed, and writes the report.
 * @throws LabError when the words or the host are not as needed, or the lab does not come up.
 */
export async function runOnNodes<SetUp extends string, Outcome>(
  bench: NodeBench<SetUp, Outcome>,
  args: readonly string[],
): Promise<void> {
  const options = parseRunOptions(args, bench.setUpNames);
  const labOptions: LabOptions = {
    ...{ ...defaultOptions, name: `${bench.name}-${process.pid}` },
    hasNodes: true,
  };
  requireHost(labOptions);
  await claimLab(labOptions.name, 'up');
  removeLabOnSignal(labOptions.name);
  await buildComponents(labOptions.kubernetes, say);
  await buildNodeComponents(labOptions.kubernetes, say);
  if (options.isFresh) bench.record.remove(({ setUp }) => options.setUps.includes(setUp));
  const missing = listMissingRounds(options, bench.record.read());
  if (missing.length > 0) await measureAll(bench, missing, labOptions);
  else say('all rounds are on record, --fresh measures them again');
  say(`wrote ${await bench.writeReport(labOptions.kubernetes)}`);
}

async function measureAll<SetUp extends string, Outcome>(
  bench: NodeBench<SetUp, Outcome>,
  missing: readonly SetUp[],
  labOptions: LabOptions,
): Promise<void> {
  const lab = await raiseNodes(labOptions, { say });
  try {
    await prepareClient(lab);
    await installServices(lab);
    await bench.prepare?.(lab);
    for (const setUp of missing) {
      const outcome = await bench.measureRound(lab, setUp);
      bench.record.append({ setUp, at: new Date().toISOString(), ...outcome });
      say(bench.describe(setUp, outcome));
    }
  } finally {
    await lab.down();
  }
}
