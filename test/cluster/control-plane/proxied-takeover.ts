/** Connections from outside while kube-proxies and balancers come and go. */
import type { ProxiedNodes } from './proxied-nodes.ts';
import { outsider } from '../../support/network/layout.ts';
import { services } from './proxied-services.ts';
import { expect, test } from '@jest/globals';
import { tell } from '../../support/lab/test-lab.ts';
import type { ProxiedPlan } from './proxied-plan.ts';
import type { Family } from '../../../lib/net.ts';
import { whoDecides } from './proxied-facts.ts';
import { setTimeout as sleep } from 'node:timers/promises';

/** Pods and clients share a machine with more to do: what counts is whether an answer comes, not when. */
const answerMs = 10_000;

/** What is done under load is over by then. */
const limitMs = 180_000;

/** A balancer's tables count for 30 s without it. */
const switchMs = 31_000;

/** New connections from outside to the addresses of nodes, so many a second in all, until what is done has been done; none may fail. */
export async function underLoad(
  world: ProxiedNodes,
  names: readonly string[],
  totalPerSecond: number,
  action: () => Promise<void>,
): Promise<void> {
  const targets = world.plan.cases.filter(([name]) => names.includes(name));
  const perSecond = Math.ceil(totalPerSecond / targets.length);
  const loads = targets.map(([name, family]) => {
    const seat = world.seat(outsider.name, `load on ${name}, ${family}`);
    const target = { host: world.plan.nodeOf(name).vips[family], port: services.web.port, isNamed: true };
    const pace = { perSecond, durationMs: limitMs, limitMs: answerMs };
    return { seat, report: seat.connectAtRate({ ...target, ...pace }) };
  });
  const startedMs = performance.now();
  try {
    await action();
  } finally {
    for (const { seat } of loads) seat.settle();
  }
  const enough = (perSecond * (performance.now() - startedMs)) / 1000 / 2;
  const reports = await Promise.all(loads.map(({ report }) => report));
  for (const [at, { sent, failures }] of reports.entries()) {
    const seen = { target: targets[at]?.join(), failures, hasSent: sent > enough };
    expect(seen).toEqual({ ...seen, failures: [], hasSent: true });
  }
  tell(`${reports.reduce((sum, { sent }) => sum + sent, 0)} connections, 0 failed`);
}

/** The test of who decides while the balancers live, are dead, and are back. */
export function testTakeover(plan: ProxiedPlan, world: () => ProxiedNodes, totalPerSecond: number): void {
  const title = ([name, family]: readonly [string, Family]) => `${name}, ${family}`;
  const decideAs = (decider: (name: string) => string) =>
    Object.fromEntries(plan.cases.map((which) => [title(which), decider(which[0])]));
  const listDeciders = async () => {
    const decided: Record<string, string> = {};
    for (const which of plan.cases) decided[title(which)] = await whoDecides(world(), which);
    return decided;
  };

  test('half a minute after the balancers are killed kube-proxy has the addresses, until they are back: no connection fails', async () => {
    const byVipnat = decideAs(() => 'vipnat');
    const byProxies = decideAs((name) => (plan.proxiedNames.includes(name) ? 'kube-proxy' : 'ECONNREFUSED'));
    await underLoad(world(), plan.proxiedNames, totalPerSecond, async () => {
      expect(await listDeciders()).toEqual(byVipnat);
      await world().killBalancers();
      expect(await listDeciders()).toEqual(byVipnat);
      await sleep(switchMs);
      expect(await listDeciders()).toEqual(byProxies);
      await world().startBalancers();
      expect(await listDeciders()).toEqual(byVipnat);
    });
  });
}
