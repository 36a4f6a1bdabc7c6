import { type Outcome as FaultOutcome, measureRound as measureFault } from '../failover/round.ts';
import type { Ground } from './set-ups.ts';
import { chooseMaster, faults } from '../failover/faults.ts';
import { apiserverPort, masters } from '../../../test/support/network/layout.ts';
import { loadavg, cpus } from 'node:os';
import { waitForSteady } from '../failover/steady.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { readUsage } from '../services/usage.ts';
import { locateProgram } from '../shared/go-program.ts';
import { LabError } from '../../lab/settings/error.ts';

/** New connections while nothing is broken. */
const calm = { perSecond: 200, durationMs: 5000, limitMs: 2000 };

/** How often another program flushes the chain in a round: fewer than an agent may repair in the time of a round. */
const flushCount = 3;
const flushLimit = '20s';

/** Flushes come in any phase of everybody's timers. */
const phaseMs = 1000;

/** The storm is as it was by then. */
const restMs = 3000;

/** What an agent took while nothing was broken. */
export interface AgentFigures {
  /** With its tools: of one processor. */
  readonly processorShare: number;
  readonly megabytes: number;
  readonly syncsPerSecond: number;
}

/** What one round found. */
export interface Outcome {
  /** How long each new connection took until the answer to its ClientHello, in milliseconds, and how many failed. */
  readonly tookMs: readonly number[];
  readonly failed: number;
  /** Of each master. */
  readonly agents: readonly AgentFigures[];
  /** From each flush of vipnat's chain until it has rules again: milliseconds; null for one that has none after 20 s. */
  readonly repairsMs: readonly (number | null)[];
  /** After an apiserver was killed. */
  readonly killed: FaultOutcome;
  /** Objects of Services that were written in a second while nothing was broken, and how many the API refused. */
  readonly writtenPerSecond: number;
  readonly refused: number;
  /** The part of all processors' time in which they had nothing to do, while nothing was broken. */
  readonly idleShare: number;
  /** Of the machine, over the last minute. */
  readonly load: number;
}

/** Measures a lab in good order, and brings it back there. */
export async function measureRound(ground: Ground, hello: string): Promise<Outcome> {
  const { lab } = ground;
  const calmFigures = await measureCalm(ground, hello);
  const [holder = ''] = await lab.listHolders();
  const repairsMs: (number | null)[] = [];
  for (let flush = 0; flush < flushCount; flush += 1) repairsMs.push(await measureRepair(ground, holder));
  const master = await chooseMaster(lab, faults.killed);
  const killed = await measureFault(lab, { port: apiserverPort, hello }, faults.killed, master);
  await waitForCalm(ground, () => faults.killed.mend(lab, master));
  return { ...calmFigures, repairsMs, killed, load: loadavg()[0] ?? 0 };
}

/**
 * Waits until a lab is in good order, after something was mended. The storm pauses meanwhile: an apiserver that starts while many Services are written ends again, as its
 * check of their addresses fails (1.36.3), and iptables-nft-save, which tells of kube-proxy, starts over at each write.
 */
export async function waitForCalm(
  { lab, storm }: Ground,
  mend: () => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  storm?.pause();
  await mend();
  await waitForSteady(lab, 'vipnat');
  storm?.resume();
  await sleep(restMs);
}

type CalmFigures = Omit<Outcome, 'repairsMs' | 'killed' | 'load'>;

async function measureCalm({ lab, storm }: Ground, hello: string): Promise<CalmFigures> {
  const countWrites = () => storm?.counts ?? { written: 0, failed: 0 };
  const [before, writtenBefore] = [await readAgents(lab), countWrites()];
  const [idleBefore, begunMs] = [readIdleMs(), performance.now()];
  const connects = await lab.seat('client', 'connects').connectAtRate({
    ...{ host: lab.vip, port: apiserverPort, hello, isTimed: true },
    ...calm,
  });
  const [idleMs, lastedMs] = [readIdleMs() - idleBefore, performance.now() - begunMs];
  const [after, written] = [await readAgents(lab), countWrites()];
  return {
    tookMs: connects.tookMs ?? [],
    failed: connects.failures.length,
    agents: before.map((figures, index) => compareAgents(figures, after[index] ?? figures, lastedMs)),
    writtenPerSecond: ((written.written - writtenBefore.written) * 1000) / lastedMs,
    refused: written.failed - writtenBefore.failed,
    idleShare: idleMs / (lastedMs * cpus().length),
  };
}

function compareAgents(before: AgentCounts, after: AgentCounts, lastedMs: number): AgentFigures {
  return {
    processorShare: (after.processorMs - before.processorMs) / lastedMs,
    megabytes: after.megabytes,
    syncsPerSecond: ((after.syncs - before.syncs) * 1000) / lastedMs,
  };
}

/** What an agent has taken and done since its start. */
interface AgentCounts {
  readonly processorMs: number;
  readonly megabytes: number;
  readonly syncs: number;
}

const metricsUrl = 'http://127.0.0.1:10268/metrics';

function readAgents(lab: Ground['lab']): Promise<AgentCounts[]> {
  return Promise.all(
    masters.map(async ({ name }) => {
      const machine = lab.machine(name);
      const { processorMs, megabytes } = await readUsage(machine, lab.service(name, 'vipnat'));
      const { stdout } = await machine.run(['curl', '--silent', '--max-time', '4', metricsUrl]);
      const syncs = Number(/^vipnat_sync_duration_seconds_count (\d+)$/m.exec(stdout)?.[1]);
      return { processorMs, megabytes, syncs };
    }),
  );
}

/** Programs of the lowest priorities count as nothing. */
function readIdleMs(): number {
  return cpus().reduce((sum, { times }) => sum + times.idle + times.nice, 0);
}

async function measureRepair({ lab }: Ground, master: string): Promise<number | null> {
  await sleep(Math.random() * phaseMs);
  const flush = ['iptables-nft', '-w', '5', '-t', 'nat', '-F', 'VIPNAT'];
  const command = [locateProgram('services'), 'repair', '-chain', 'VIPNAT', '-limit', flushLimit, ...flush];
  const { exitCode, stdout, stderr } = await lab.machine(master).run(command);
  if (exitCode === 0) return Number(stdout);
  if (stderr.includes('has no rule after')) return null;
  throw new LabError(`no repair on ${master}: ${stderr}`);
}
