/**
 * What a storm of Services on the same masters changes for clients of the API's VIP. Run by `scripts/bench beside`; what it
 * measures and how is in docs/benchmarks.md.
 */
import { type LabOptions, defaultOptions } from '../../lab/settings/options.ts';
import { runBench, say } from '../shared/run.ts';
import { parseRunOptions, type RunOptions, listMissingRounds } from '../shared/options.ts';
import { setUpNames, type SetUpName, Ground, setUps } from './set-ups.ts';
import { requireHost } from '../../lab/settings/requirements.ts';
import { removeLabOnSignal } from '../../lab/control-plane/interrupt.ts';
import { buildComponents } from '../../lab/build/build.ts';
import { buildProgram } from '../shared/go-program.ts';
import { record } from './record.ts';
import { writeReport } from './report.ts';
import { recordHello } from '../../../test/support/network/hello.ts';
import { raiseLab } from '../../lab/control-plane/raise.ts';
import { prepareClient } from '../shared/client.ts';
import { masters } from '../../../test/support/network/layout.ts';
import { LabError } from '../../lab/settings/error.ts';
import { toSecondAddress, endpointPort, seatNetwork } from './objects.ts';
import { runShell } from '../../lab/machines/machine.ts';
import { LabObjects } from './lab-objects.ts';
import { ServiceWriter } from '../shared/service-writer.ts';
import { waitForCalm, measureRound, type Outcome } from './round.ts';
import { pickPercentile } from '../shared/statistics.ts';

const labOptions: LabOptions = { ...defaultOptions, name: `beside-${process.pid}` };

await runBench(() => measure(parseRunOptions(process.argv.slice(2), setUpNames)));

async function measure(options: RunOptions<SetUpName>): Promise<void> {
  requireHost(labOptions);
  removeLabOnSignal(labOptions.name);
  await buildComponents(labOptions.kubernetes, say);
  await buildProgram('services');
  if (options.isFresh) record.remove(({ setUp }) => options.setUps.includes(setUp));
  const missing = listMissingRounds(options, record.read());
  if (missing.length > 0) await measureAll(missing);
  else say('all rounds are on record, --fresh measures them again');
  say(`wrote ${await writeReport(labOptions.kubernetes)}`);
}

async function measureAll(missing: readonly SetUpName[]): Promise<void> {
  const hello = await recordHello();
  say(`bringing up a lab for ${missing.length} rounds`);
  const lab = await raiseLab(labOptions);
  try {
    await prepareClient(lab);
    const [holder] = await lab.listHolders();
    const [first] = masters.filter(({ name }) => name === holder);
    if (first === undefined) throw new LabError('no master holds the VIP');
    for (const master of masters) {
      const script = `ip address add ${toSecondAddress(master)} dev eth0`;
      await runShell(lab.machine(master.name), script);
    }
    const objects = new LabObjects(lab, first);
    // The lab has its Nodes already.
    await new ServiceWriter(objects, endpointPort).writeBasics([], seatNetwork, listHolders(first.name));
    const ground = new Ground(lab, objects);
    try {
      for (const setUp of missing) await measureOne(ground, setUp, hello);
    } finally {
      ground.abandon();
    }
  } finally {
    await lab.down();
  }
}

/** Who may hold the seat: first the one that holds the API's VIP. */
function listHolders(first: string): string[] {
  return [first, ...masters.map(({ name }) => name).filter((name) => name !== first)];
}

async function measureOne(ground: Ground, setUp: SetUpName, hello: string): Promise<void> {
  await ground.change(setUps[setUp]);
  await waitForCalm(ground);
  const outcome = await measureRound(ground, hello);
  record.append({ setUp, at: new Date().toISOString(), ...outcome });
  say(`${setUps[setUp].title}: ${describe(outcome)}`);
}

function describe({ tookMs, failed, agents, repairsMs, killed, ...rest }: Outcome): string {
  const [p50, p99] = [50, 99].map((percent) => pickPercentile(tookMs, percent)?.toFixed(1) ?? '?');
  const shares = agents.map(({ processorShare }) => (processorShare * 100).toFixed(1));
  const syncs = agents.map(({ syncsPerSecond }) => syncsPerSecond.toFixed(1));
  return [
    `connections ${p50} ms, p99 ${p99} ms, ${failed} failed`,
    `repairs ${repairsMs.map((ms) => ms?.toFixed(0) ?? 'never').join(', ')} ms`,
    `killed: ${killed.failed} of ${killed.sent} failed for ${killed.windowMs} ms, refused for ${killed.refusedMs} ms`,
    `agents ${shares.join(', ')} % of a processor, ${syncs.join(', ')} syncs a second`,
    `${rest.writtenPerSecond.toFixed(0)} writes a second, ${rest.refused} refused, ${(rest.idleShare * 100).toFixed(0)} % idle (load ${rest.load.toFixed(1)})`,
  ].join('; ');
}
