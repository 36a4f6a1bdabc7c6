import { describe, expect, test } from '@jest/globals';
import { recallApiservers } from '../../../../agent/endpoints/endpoint-persister.ts';
import { emptyState } from '../../../../agent/observe/reconcile-state.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';
import { FakeStore } from '../../../support/fakes/store.ts';
import { ordinaryConfig, type RunningAgent, startAgent } from '../../../support/agent/running-agent.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;
const [one, two, three] = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'];
const all = [one, two, three].map(toEndpoint);

/** Where our rules send new connections: addresses, or kube-proxy's chain. */
function listTargets(kernel: FakeKernel): string[] {
  const rules = kernel
    .show('ipv4', 'nft')
    .split('\n')
    .filter((line) => /^-A VIPNAT-[0-9a-f]{10} /.test(line));
  return rules.map((rule) => /(?:--to-destination|-j) (10\S+|KUBE-SVC-\w+)/.exec(rule)?.[1] ?? rule);
}

/** The first two apiservers die, kube-proxy forgets them, and the last one that it knows dies too. */
async function loseAll({ clock, kernel, apiservers }: RunningAgent): Promise<void> {
  for (const dead of [one, two]) apiservers.set(dead, 'refusing');
  await clock.advance(20_000);
  syncKubeProxy(kernel, nft, all.slice(2));
  await clock.advance(5000);
  apiservers.set(three, 'refusing');
  await clock.advance(10_000);
}

function startFollowing(store = new FakeStore()): RunningAgent {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  syncKubeProxy(kernel, nft, all);
  return startAgent({ clock, kernel, store });
}

describe('when every apiserver that is listed is dead', () => {
  test('one that was listed before gets the connections as soon as it lives again, for kube-proxy hears of it through us', async () => {
    const agent = startFollowing();
    await agent.clock.advance(2000);
    await loseAll(agent);
    expect(listTargets(agent.kernel)).toEqual([three]);
    agent.apiservers.set(two, 'healthy');
    await agent.clock.advance(5000);
    expect(listTargets(agent.kernel)).toEqual([two]);

    syncKubeProxy(agent.kernel, nft, all.slice(1));
    await agent.clock.advance(5000);
    expect(listTargets(agent.kernel)).toEqual([two]);
    agent.apiservers.set(three, 'healthy');
    await agent.clock.advance(10_000);
    expect(listTargets(agent.kernel)).toEqual(['KUBE-SVC-NPX46M4PTMTKRN6Y']);
    expect(agent.kernel.breaches).toEqual([]);
  });

  test('one that --endpoints names does, also for an agent that never saw it listed', async () => {
    const clock = new FakeClock();
    const kernel = new FakeKernel(clock);
    syncKubeProxy(kernel, nft, all.slice(2));
    const agent = startAgent({ clock, kernel, config: { ...ordinaryConfig, endpoints: all.slice(0, 1) } });
    await clock.advance(2000);
    agent.apiservers.set(three, 'refusing');
    await clock.advance(5000);
    expect(listTargets(kernel)).toEqual([one]);
  });

  test('one that was listed before is asked for nothing while another one lives', async () => {
    const agent = startFollowing();
    await agent.clock.advance(2000);
    syncKubeProxy(agent.kernel, nft, all.slice(1));
    await agent.clock.advance(5000);
    agent.apiservers.set(two, 'refusing');
    await agent.clock.advance(5000);
    expect(listTargets(agent.kernel)).toEqual([three]);
    expect([...agent.agent.health.keys()]).toEqual([two, three]);
  });

  test('one that was listed before does, also for an agent that was started since', async () => {
    const store = new FakeStore();
    const first = startFollowing(store);
    await first.clock.advance(2000);
    syncKubeProxy(first.kernel, nft, all.slice(1));
    await first.clock.advance(5000);
    const memory = { ...emptyState, ...(await recallApiservers(store, () => undefined)) };
    const { kernel, clock } = first;
    await first.agent.stop();
    const agent = startAgent({ clock, kernel, memory });
    for (const dead of [two, three]) agent.apiservers.set(dead, 'refusing');
    await clock.advance(10_000);
    expect(listTargets(kernel)).toEqual([one]);
  });

  test('what an earlier agent has saved counts as listed before', async () => {
    const store = new FakeStore();
    await store.save({ savedAt: '2026-11-21T15:04:05.678Z', endpoints: all });
    const memory = { ...emptyState, ...(await recallApiservers(store, () => undefined)) };
    const clock = new FakeClock();
    const kernel = new FakeKernel(clock);
    syncKubeProxy(kernel, nft, all.slice(2));
    const agent = startAgent({ clock, kernel, memory });
    for (const dead of [two, three]) agent.apiservers.set(dead, 'refusing');
    await clock.advance(10_000);
    expect(listTargets(kernel)).toEqual([one]);
  });
});

describe.each(['ailing', 'frozen'] as const)('when every apiserver that is listed is %s', (behaviour) => {
  /** kube-proxy lists the last one alone. */
  async function startWithOne(): Promise<RunningAgent> {
    const agent = startFollowing();
    await agent.clock.advance(2000);
    syncKubeProxy(agent.kernel, nft, all.slice(2));
    await agent.clock.advance(5000);
    return agent;
  }

  test('those that were listed before get the connections, and it has them back as soon as it does well', async () => {
    const { apiservers, clock, kernel } = await startWithOne();
    apiservers.set(three, behaviour);
    await clock.advance(25_000);
    expect(listTargets(kernel)).toEqual([one, two]);
    await clock.advance(120_000);
    expect(listTargets(kernel)).toEqual([one, two]);
    apiservers.set(three, 'healthy');
    await clock.advance(20_000);
    expect(listTargets(kernel)).toEqual(['KUBE-SVC-NPX46M4PTMTKRN6Y']);
  });

  test('those that were listed before and do no better get none', async () => {
    const { agent, apiservers, clock, kernel } = await startWithOne();
    for (const text of [one, two, three]) apiservers.set(text, behaviour);
    await clock.advance(60_000);
    expect(listTargets(kernel)).toEqual(['KUBE-SVC-NPX46M4PTMTKRN6Y']);
    expect([...agent.health.keys()].sort()).toEqual([one, two, three]);
  });

  test('those that were listed before and are dead get none', async () => {
    const { apiservers, clock, kernel } = await startWithOne();
    for (const text of [one, two]) apiservers.set(text, 'refusing');
    apiservers.set(three, behaviour);
    await clock.advance(60_000);
    expect(listTargets(kernel)).toEqual(['KUBE-SVC-NPX46M4PTMTKRN6Y']);
  });

  test('and those that were listed before were so too, the first that does well gets the connections', async () => {
    const { apiservers, clock, kernel } = await startWithOne();
    for (const text of [one, two, three]) apiservers.set(text, behaviour);
    await clock.advance(60_000);
    apiservers.set(two, 'healthy');
    await clock.advance(60_000);
    expect(listTargets(kernel)).toEqual([two]);
  });
});
