import type { NodeLab } from '../../lab/nodes/node-lab.ts';
import { type SetUp, webName } from './set-ups.ts';
import { webContainer, webProgram } from '../shared/web-program.ts';
import { createWeb, removeWeb } from '../../lab/services/web.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { loadavg } from 'node:os';
import { countErrors } from '../shared/failures.ts';
import { nodes } from '../../lab/nodes/hosts.ts';

/** New connections each second, and long ones. */
export const load = { perSecond: 500, held: 100 };

/** What clients outside the cluster saw of one update. */
export interface Outcome {
  /** New connections in all, and those that were not answered in time. */
  readonly sent: number;
  readonly failed: number;
  /** From the start of the first one that failed to that of the last one; 0 when none did. */
  readonly windowMs: number;
  /** Those that took more than a second: their first packet was lost. */
  readonly slow: number;
  /** Long connections: those that were open at the start, and those of them that ended before their pod said goodbye. */
  readonly held: number;
  readonly cut: number;
  readonly errors: Readonly<Record<string, number>>;
  /** From the word to update to the last pod's being ready. */
  readonly updateMs: number;
  /** Of the machine, over the last minute. */
  readonly load: number;
}

/** A lost first packet comes again after one second. */
const limitMs = 3000;

/** An update of four pods takes half a minute on two cores. */
const longestMs = 240_000;

/** Clients run steadily by then. */
const leadMs = 2000;

/** The last pod is gone by then. */
const restMs = 8000;

/** Measures one update of a Deployment, and takes the Deployment away. */
export async function measureRound(lab: NodeLab, setUp: SetUp): Promise<Outcome> {
  const { lifecycle = {}, ...web } = setUp.web;
  const container = { lifecycle, ...webContainer };
  await createWeb(lab, { name: webName, program: webProgram, container, ...web });
  try {
    return await measureUpdate(lab, setUp);
  } finally {
    await removeWeb(lab, webName);
  }
}

async function measureUpdate(lab: NodeLab, setUp: SetUp): Promise<Outcome> {
  const target = await setUp.locate(lab);
  const [holder, connector] = [lab.seat('client', 'held'), lab.seat('client', 'connects')];
  const { held, report } = await holder.hold(target, load.held, longestMs);
  const connecting = connector.connectAtRate({
    ...{ ...target, perSecond: load.perSecond, limitMs, isNamed: true },
    durationMs: longestMs,
  });
  await sleep(leadMs);
  const updateMs = await (setUp.isSlowed ? slowDown(lab, () => update(lab)) : update(lab)).finally(() => {
    connector.settle();
  });
  const { sent, failures, slowAtMs } = await connecting;
  await sleep(restMs);
  holder.settle();
  const { farewells = 0 } = await report;
  return {
    ...{ sent, failed: failures.length, slow: slowAtMs.length },
    windowMs: (failures.at(-1)?.atMs ?? 0) - (failures[0]?.atMs ?? 0),
    ...{ held, cut: held - farewells, updateMs, load: loadavg()[0] ?? 0 },
    errors: countErrors(failures),
  };
}

async function update(lab: NodeLab): Promise<number> {
  const begun = performance.now();
  const of = [`deployment/${webName}`, '--namespace', 'default'];
  await lab.ask(['rollout', 'restart', ...of]);
  await lab.ask(['rollout', 'status', ...of, '--timeout=180s'], { limitMs: longestMs });
  return performance.now() - begun;
}

/** For how long balancers stand still, and then run. */
const pulse = { stoppedMs: 3000, runningMs: 200 };

/** Does something while all balancers stand still most of the time. They run again after it, whatever comes of it. */
async function slowDown<T>(lab: NodeLab, act: () => Promise<T>): Promise<T> {
  const done = new AbortController();
  const slowing = slow(lab, done.signal);
  try {
    return await act();
  } finally {
    done.abort();
    await slowing;
  }
}

async function slow(lab: NodeLab, done: AbortSignal): Promise<void> {
  while (!done.aborted) {
    try {
      await signalBalancers(lab, 'STOP');
      await sleep(pulse.stoppedMs, undefined, { signal: done }).catch(() => undefined);
    } finally {
      await signalBalancers(lab, 'CONT');
    }
    await sleep(pulse.runningMs);
  }
}

/** A node's machine has processes of its own, and sees no others. */
async function signalBalancers(lab: NodeLab, signal: 'STOP' | 'CONT'): Promise<void> {
  const words = ['pkill', `-${signal}`, '--full', 'vipnat(.js)? balancer '];
  await Promise.all(nodes.map(({ name }) => lab.machine(name).run(words)));
}
