import { expect, test } from '@jest/globals';
import { probeOnce } from '../../../../agent/health/one-shot.ts';
import { type HealthView } from '../../../../agent/health/usable.ts';
import { type Behaviour, FakeApiservers } from '../../../support/fakes/apiserver.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { local, second, third } from './monitored.ts';

interface Outcome {
  readonly states: readonly (string | undefined)[];
  readonly tookMs: number;
}

/** Probes three apiservers once, the third of which behaves in some way. */
async function probe(
  behaviour: Behaviour,
  endpoints: readonly string[] = [local, second, third],
  inUse: readonly string[] = [],
): Promise<Outcome> {
  const clock = new FakeClock();
  const apiservers = new FakeApiservers(clock);
  apiservers.set(third, behaviour);
  const settings = { intervalMs: 250, timeoutMs: 250 };
  let view: HealthView | null = null;
  void probeOnce(
    { apiserver: apiservers, clock, settings },
    {
      endpoints: endpoints.map(toEndpoint),
      localAddresses: new Set(['10.0.0.11']),
      inUse: inUse.map(toEndpoint),
    },
  ).then((found) => (view = found));
  for (let ms = 0; ms < 10_000; ms += 1) {
    await clock.advance(1);
    const found = view as HealthView | null;
    if (found === null) continue;
    const tookMs = clock.now();
    await clock.advance(10_000);
    const sockets = apiservers.open + apiservers.openForPings;
    expect({ timers: clock.pending, sockets }).toEqual({ timers: 0, sockets: 0 });
    return { states: endpoints.map((endpoint) => found.get(endpoint)?.state), tookMs };
  }
  throw new Error('no answer');
}

test('when all is well it takes a round trip or two, and leaves nothing behind', async () => {
  const { states, tookMs } = await probe('healthy');
  expect(states).toEqual(['ready', 'ready', 'ready']);
  expect(tookMs).toBeLessThan(10);
});

test.each([
  ['refusing', 'dead', 10],
  ['silent', 'dead', 750],
  ['failing', 'draining', 1100],
  ['frozen', 'ready', 1600],
  ['slow', 'ready', 1600],
] as const)(
  'one that is %s is %s within %i ms, as the agent would have it by then',
  async (behaviour, state, mostMs) => {
    const { states, tookMs } = await probe(behaviour);
    expect(states).toEqual(['ready', 'ready', state]);
    expect(tookMs).toBeLessThanOrEqual(mostMs);
  },
);

test('with no apiserver to probe it answers at once', async () => {
  expect((await probe('healthy', [])).tookMs).toBeLessThanOrEqual(1);
});

test.each([
  ['healthy', 'ready', 10],
  ['refusing', 'dead', 10],
  ['silent', 'dead', 750],
  ['failing', 'draining', 1100],
  ['ailing', 'warming', 1100],
  ['frozen', 'warming', 1600],
  ['slow', 'warming', 1600],
] as const)(
  'one that is left out by rules that are there, and is %s, is %s within %i ms',
  async (behaviour, state, mostMs) => {
    const { states, tookMs } = await probe(behaviour, undefined, [local, second]);
    expect(states).toEqual(['ready', 'ready', state]);
    expect(tookMs).toBeLessThanOrEqual(mostMs);
  },
);

test('all that were left out are found well, where the rules name somebody who is not listed any more', async () => {
  const { states, tookMs } = await probe('healthy', undefined, ['10.0.0.99:6443']);
  expect(states).toEqual(['ready', 'ready', 'ready']);
  expect(tookMs).toBeLessThanOrEqual(1600);
});

test.each([
  ['healthy', 'ready'],
  ['refusing', undefined],
  ['ailing', undefined],
  ['hanging up', undefined],
] as const)(
  'where nobody else lives, what is %s at this host’s own address is %s',
  async (behaviour, state) => {
    const clock = new FakeClock();
    const apiservers = new FakeApiservers(clock);
    apiservers.set(third, 'refusing');
    apiservers.set(local, behaviour);
    const settings = { intervalMs: 250, timeoutMs: 250 };
    const [endpoints, own] = [[toEndpoint(third)], [toEndpoint(local)]];
    const found = probeOnce(
      { apiserver: apiservers, clock, settings },
      { endpoints, own, localAddresses: new Set(['10.0.0.11']) },
    );
    await clock.advance(10);
    expect((await found).get(local)?.state).toBe(state);
  },
);
