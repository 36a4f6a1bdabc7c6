import type { NodeLab } from '../../lab/nodes/node-lab.ts';
import { webPort, podPort, createWeb } from '../../lab/services/web.ts';
import { nodePort, webName, type SetUp, findFault } from './set-ups.ts';
import { webProgram, webContainer } from '../shared/web-program.ts';
import { waitForCalm, waitForPods } from './calm.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectReport, HoldReport } from '../../../test/support/network/seat-tasks.ts';
import { countErrors } from '../shared/failures.ts';
import { loadavg } from 'node:os';

/** New connections each second, and long ones; the pods. */
export const load = { perSecond: 500, held: 100, pods: 4 };

/** What clients outside the cluster saw of one fault. Milliseconds are from the fault to the start of a connection. */
export interface Outcome {
  /** New connections in all, and those that were not answered in time. */
  readonly sent: number;
  readonly failed: number;
  /** When the last one began that failed; 0 when none did. */
  readonly failedMs: number;
  /** Those that failed or took more than a second, and when the last of them began. */
  readonly slowed: number;
  readonly slowedMs: number;
  /** Long connections: those that were open at the fault, and those of them that were reset. */
  readonly held: number;
  readonly cut: number;
  readonly errors: Readonly<Record<string, number>>;
  /** Of the machine, over the last minute. */
  readonly load: number;
}

/** A lost first packet comes again after one second. */
const limitMs = 3000;

/** Kubernetes needs 50 s to see that a node is gone, and kube-proxy needs to hear of it. */
const longestMs = 150_000;

/** Clients run steadily by then; and how much later a fault may come, so that it meets everybody's timers in every phase. */
const lead = { leastMs: 2000, phaseMs: 1000 };

/** The Deployment and its Service, for all rounds. */
export async function createPods(lab: NodeLab): Promise<void> {
  const service = { ports: [{ port: webPort, targetPort: podPort, nodePort }] };
  const options = {
    name: webName,
    replicas: load.pods,
    program: webProgram,
    container: webContainer,
    service,
  };
  await createWeb(lab, options);
}

/** Breaks a node that has pods, measures, and mends it. Begins when all is well. */
export async function measureRound(lab: NodeLab, setUp: SetUp): Promise<Outcome> {
  const { holder, victim } = await waitForCalm(lab);
  const target = await setUp.locate(lab, holder);
  await waitForPods(lab, target, load.pods);
  const fault = findFault(setUp);
  const [holding, connector] = [lab.seat('client', 'held'), lab.seat('client', 'connects')];
  const { held, report } = await holding.hold(target, load.held, longestMs);
  const connecting = connector.connectAtRate({
    ...{ ...target, perSecond: load.perSecond, limitMs, isNamed: true },
    durationMs: longestMs,
  });
  await sleep(lead.leastMs + Math.random() * lead.phaseMs);
  const faultAt = await fault.break(lab, victim.name);
  await sleep(fault.lengthMs);
  connector.settle();
  const connects = await connecting;
  holding.settle();
  const outcome = summarize(connects, await report, faultAt);
  await fault.mend(lab, victim.name);
  return { ...outcome, held };
}

function summarize(
  { startedAt, sent, failures, slowAtMs }: ConnectReport,
  { errors: cuts }: HoldReport,
  faultAt: number,
): Omit<Outcome, 'held'> {
  const failedAtMs = failures.map(({ atMs }) => atMs);
  const sinceFault = (atMs: readonly number[]) =>
    atMs.length === 0 ? 0 : Math.round(startedAt + Math.max(...atMs) - faultAt);
  const slowed = [...failedAtMs, ...slowAtMs];
  return {
    ...{ sent, failed: failures.length, failedMs: sinceFault(failedAtMs) },
    ...{ slowed: slowed.length, slowedMs: sinceFault(slowed) },
    cut: Object.values(cuts).reduce((sum, count) => sum + count, 0),
    errors: countErrors(failures),
    load: loadavg()[0] ?? 0,
  };
}
