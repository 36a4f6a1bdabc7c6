import { describe, expect, test } from '@jest/globals';
import { recallApiservers } from '../../../../agent/endpoints/endpoint-persister.ts';
import { emptyState, type ReconcileState } from '../../../../agent/observe/reconcile-state.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';
import { FakeStore } from '../../../support/fakes/store.ts';
import {
  type AgentWorld,
  ordinaryConfig,
  type RunningAgent,
  startAgent,
} from '../../../support/agent/running-agent.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;
const minuteMs = 60_000;

/** Who tells of apiservers, in which family, and with whom it begins. */
interface Case {
  readonly source: 'the API' | 'kube-proxy';
  readonly family: 'ipv4' | 'ipv6';
  readonly texts: readonly [string, string, string];
}

const ipv4 = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'] as const;
const ipv6 = ['[fd77::11]:6443', '[fd77::12]:6443', '[fd77::13]:6443'] as const;
const [one, two, three] = ipv4;
const proxyCase: Case = { source: 'kube-proxy', family: 'ipv4', texts: ipv4 };
const cases: readonly Case[] = [
  proxyCase,
  { source: 'the API', family: 'ipv4', texts: ipv4 },
  { source: 'the API', family: 'ipv6', texts: ipv6 },
];

/** Whether our rules send new connections to this one by its address. */
function isTarget({ kernel }: RunningAgent, text: string): boolean {
  const family = text.startsWith('[') ? 'ipv6' : 'ipv4';
  return kernel.show(family, 'nft').includes(`--to-destination ${text}`);
}

/** The source names these from now on. */
function list(running: RunningAgent, { source, family }: Case, texts: readonly string[]): void {
  if (source === 'the API') {
    running.api.list(family, texts);
    return;
  }
  syncKubeProxy(running.kernel, nft, texts.map(toEndpoint));
  running.kernel.trigger('nft-generation');
}

/** An agent that has followed a source with three healthy apiservers for five seconds. */
async function start(one: Case, world: AgentWorld = {}): Promise<RunningAgent> {
  const clock = world.clock ?? new FakeClock();
  const kernel = world.kernel ?? new FakeKernel(clock);
  const vips = [toEndpoint('10.0.0.50:6443'), toEndpoint('[fd77::50]:6443')];
  const running = startAgent({ config: { ...ordinaryConfig, vips }, ...world, clock, kernel });
  await clock.advance(10);
  list(running, one, one.texts);
  await clock.advance(5000);
  return running;
}

/** Restarts an apiserver, which refuses for 20 s. Answers who of the others got connections meanwhile. */
async function restart(running: RunningAgent, text: string, others: readonly string[]): Promise<string[]> {
  running.apiservers.set(text, 'refusing');
  const found = new Set<string>();
  for (let second = 0; second < 20; second += 1) {
    await running.clock.advance(1000);
    for (const other of others) if (isTarget(running, other)) found.add(other);
  }
  running.apiservers.set(text, 'healthy');
  await running.clock.advance(10_000);
  return [...found].sort();
}

async function recall(store: FakeStore): Promise<ReconcileState> {
  return { ...emptyState, ...(await recallApiservers(store, () => undefined)) };
}

describe.each(cases)('apiservers that $source took from its $family list while all did well', (one) => {
  const [first, second, last] = one.texts;

  test('get nothing when the last one restarts, however well they answer', async () => {
    const running = await start(one);
    list(running, one, [last]);
    await running.clock.advance(5 * minuteMs);
    expect(await restart(running, last, [first, second])).toEqual([]);
    expect(running.kernel.breaches).toEqual([]);
  });

  test('get nothing from an agent that was started since either', async () => {
    const running = await start(one);
    list(running, one, [last]);
    await running.clock.advance(5 * minuteMs);
    await running.agent.stop();
    const { store, kernel, clock } = running;
    const again = await start(
      { ...one, texts: [last, last, last] },
      { memory: await recall(store), kernel, clock },
    );
    expect(await restart(again, last, [first, second])).toEqual([]);
  });
});

describe('an apiserver that was taken from the list while all did well', () => {
  test('gets nothing although it still has connections', async () => {
    const running = await start(proxyCase);
    const vip = toEndpoint('10.0.0.50:6443');
    running.kernel.trackFlow({ vip, backend: toEndpoint(one), isHalfOpen: false });
    list(running, proxyCase, [three]);
    await running.clock.advance(5 * minuteMs);
    expect(await restart(running, three, [one, two])).toEqual([]);
  });

  test('gets nothing although the last one restarted within the first seconds, too', async () => {
    const running = await start(proxyCase);
    list(running, proxyCase, [three]);
    await running.clock.advance(5000);
    await restart(running, three, []);
    await running.clock.advance(2 * minuteMs);
    expect(await restart(running, three, [one, two])).toEqual([]);
  });

  test('is asked for nothing a minute later', async () => {
    const running = await start(proxyCase);
    list(running, proxyCase, [three]);
    await running.clock.advance(minuteMs + 3000);
    expect(running.apiservers.open).toBe(1);
  });

  test('is a fallback again when it was listed again and died', async () => {
    const running = await start(proxyCase);
    list(running, proxyCase, [three]);
    await running.clock.advance(2 * minuteMs);
    list(running, proxyCase, ipv4);
    await running.clock.advance(10_000);
    running.apiservers.set(one, 'refusing');
    await running.clock.advance(20_000);
    list(running, proxyCase, [two, three]);
    await running.clock.advance(10_000);
    for (const text of [two, three]) running.apiservers.set(text, 'refusing');
    running.apiservers.set(one, 'healthy');
    await running.clock.advance(10_000);
    expect(isTarget(running, one)).toBe(true);
  });
});

describe('these stay a fallback', () => {
  test.each(['refusing', 'silent', 'frozen', 'failing', 'ailing'] as const)(
    'one that was %s when it left, and does well for minutes',
    async (behaviour) => {
      const running = await start(proxyCase);
      running.apiservers.set(one, behaviour);
      await running.clock.advance(20_000);
      list(running, proxyCase, [two, three]);
      await running.clock.advance(10_000);
      running.apiservers.set(one, 'healthy');
      await running.clock.advance(5 * minuteMs);
      for (const text of [two, three]) running.apiservers.set(text, 'refusing');
      await running.clock.advance(10_000);
      expect(isTarget(running, one)).toBe(true);
    },
  );

  test.each(['refusing', 'silent', 'frozen', 'failing', 'ailing'] as const)(
    'one that was %s ten seconds after it had left, and does well since: it shut down',
    async (behaviour) => {
      const running = await start(proxyCase);
      list(running, proxyCase, [two, three]);
      await running.clock.advance(10_000);
      running.apiservers.set(one, behaviour);
      await running.clock.advance(20_000);
      running.apiservers.set(one, 'healthy');
      await running.clock.advance(5 * minuteMs);
      for (const text of [two, three]) running.apiservers.set(text, 'refusing');
      await running.clock.advance(10_000);
      expect(isTarget(running, one)).toBe(true);
    },
  );

  test.each(['refusing', 'silent', 'frozen', 'ailing'] as const)(
    'those that left while the last one that is listed was %s, as it stays',
    async (behaviour) => {
      const running = await start(proxyCase);
      running.apiservers.set(three, behaviour);
      list(running, proxyCase, [three]);
      await running.clock.advance(10 * minuteMs);
      expect([one, two].filter((text) => isTarget(running, text))).toEqual([one, two]);
    },
  );

  test('those that left while no agent ran', async () => {
    const running = await start(proxyCase);
    await running.agent.stop();
    const { store, kernel, clock } = running;
    list(running, proxyCase, [three]);
    const again = startAgent({ memory: await recall(store), kernel, clock });
    await clock.advance(5 * minuteMs);
    again.apiservers.set(three, 'refusing');
    await clock.advance(10_000);
    expect([one, two].filter((text) => isTarget(again, text))).toEqual([one, two]);
  });

  test('those that were remembered alone when kube-proxy came to name another', async () => {
    const store = new FakeStore();
    await store.save({
      savedAt: '2026-11-21T15:04:05.678Z',
      endpoints: ipv4.map((text) => toEndpoint(text)),
    });
    const running = startAgent({ memory: await recall(store) });
    await running.clock.advance(minuteMs);
    list(running, proxyCase, [three]);
    await running.clock.advance(5 * minuteMs);
    running.apiservers.set(three, 'refusing');
    await running.clock.advance(10_000);
    expect([one, two].filter((text) => isTarget(running, text))).toEqual([one, two]);
  });

  test('those that --endpoints names', async () => {
    const config = { ...ordinaryConfig, endpoints: ipv4.map((text) => toEndpoint(text)) };
    const running = await start(proxyCase, { config });
    list(running, proxyCase, [three]);
    await running.clock.advance(5 * minuteMs);
    running.apiservers.set(three, 'refusing');
    await running.clock.advance(10_000);
    expect([one, two].filter((text) => isTarget(running, text))).toEqual([one, two]);
  });
});
