import { fc } from '../../support/random/fc.ts';
import { type Requeue, TriggerQueue } from '../../../lib/sync-queue.ts';
import type { LoopCause } from '../../../agent/report/events.ts';
import { describe, test, expect } from '@jest/globals';
import { FakeClock } from '../../support/fakes/clock.ts';
import { syncKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { startAgent } from '../../support/agent/running-agent.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import type { KernelQuery, KernelReading } from '../../../lib/kernel/port.ts';
import { forAll } from './for-all.ts';

const runMs = 120_000;

type Span = Readonly<Record<'from' | 'to', number>>;

/** Looks up to which some span had more looking than a third of it, one look and 0.7 s. Pure. */
function findTooMuch(spans: readonly Span[]): string[] {
  let spentMs = 0;
  let mostAheadMs = -Infinity;
  return spans.flatMap(({ from, to }) => {
    // Of all spans that end here, the one that is furthest ahead of its third.
    mostAheadMs = Math.max(mostAheadMs, from / 3 - spentMs);
    const costMs = to - from;
    spentMs += costMs;
    const excessMs = spentMs - to / 3 + mostAheadMs - costMs - 700;
    return excessMs > 0 ? [`${excessMs} ms too much at the end of the look from ${from} to ${to}`] : [];
  });
}

const findLongestRest = (spans: readonly Span[]): number =>
  Math.max(0, ...spans.slice(1).map(({ from }, index) => from - (spans[index]?.to ?? 0)));

/** Of one that fails at once the loop's own back-off keeps the pace. */
const costMs = fc.oneof(...[100, 1000, 9000].map((max) => fc.integer({ min: 10, max })));

/** What comes of a look, as the loop has it. */
const outcome: fc.Arbitrary<Requeue<LoopCause> & { readonly isIdle: boolean }> = fc
  .record({
    next: fc.constantFrom<Requeue<LoopCause>>(
      { cause: 'tick', delayMs: 60_000 },
      { cause: 'tick', delayMs: 500 },
      { cause: 'verify', delayMs: 0 },
      { cause: 'retry', delayMs: 50 },
      { cause: 'retry', delayMs: 10_000 },
    ),
    isIdle: fc.boolean(),
  })
  .map(({ next, isIdle }) => ({ ...next, isIdle }));

/** What asks for looks, so often: a trigger, or an apiserver's health that changes. */
const asking = fc.record({
  cause: fc.constantFrom('nft-generation', 'addresses', 'api', 'health'),
  everyMs: fc.oneof(fc.integer({ min: 20, max: 300 }), fc.integer({ min: 300, max: 5000 })),
  firstMs: fc.nat({ max: 3000 }),
});

const quiet = { cause: 'tick', delayMs: 60_000, isIdle: true } as const;

const pattern = fc.record({
  costs: fc.array(costMs, { minLength: 1, maxLength: 8 }),
  outcomes: fc.array(outcome, { minLength: 1, maxLength: 8 }),
  askings: fc.array(asking, { maxLength: 3 }),
});

describe('looking takes at most a third of any span of time (I14)', () => {
  test('whatever asks for looks, whatever they cost and whatever comes of them; and the next is never more than 60 s away', async () => {
    await forAll({ runs: 200 }, [pattern], async ({ costs, outcomes, askings }) => {
      const clock = new FakeClock(undefined, 1);
      const spans: Span[] = [];
      const sync = async (): Promise<Requeue<LoopCause>> => {
        const from = clock.now();
        const cost = costs[spans.length % costs.length] ?? 0;
        const next = outcomes[spans.length % outcomes.length] ?? quiet;
        await new Promise<void>((resolve) => clock.schedule(cost, resolve));
        spans.push({ from, to: clock.now() });
        queue.recordOutcome(next.isIdle);
        return next;
      };
      const queue = new TriggerQueue<LoopCause>({
        clock,
        awaited: ['start', 'verify', 'health', 'own-rules'],
        sync,
      });
      queue.requeueAfter('start', 0);
      for (const { cause, everyMs, firstMs } of askings) {
        const ask = () => {
          if (cause === 'health') queue.requeueAfter(cause, 0);
          else queue.trigger(cause);
          clock.schedule(everyMs, ask);
        };
        clock.schedule(firstMs, ask);
      }
      await clock.advance(runMs);
      expect(findTooMuch(spans).slice(0, 1)).toEqual([]);
      expect(findLongestRest(spans)).toBeLessThanOrEqual(60_000);
      expect(clock.now() - (spans.at(-1)?.to ?? 0)).toBeLessThanOrEqual(70_000);
    });
  });

  test('by a whole agent, among strangers who undo its rules, tools that fail and looks that cost much', async () => {
    await forAll(
      { runs: 60 },
      [
        fc.record({
          costMs,
          everyMs: fc.integer({ min: 100, max: 3000 }),
          failing: fc.constantFrom(null, 'iptables-nft-save', 'iptables-nft-restore'),
          isUndone: fc.boolean(),
        }),
      ],
      async ({ costMs: cost, everyMs, failing, isUndone }) => {
        const clock = new FakeClock();
        const kernel = new TimedKernel(clock);
        syncKubeProxy(kernel, { family: 'ipv4', dialect: 'nft' }, [toEndpoint('10.77.0.11:6443')]);
        kernel.faults.delayEvery('netlink', cost);
        const { agent } = startAgent({ clock, kernel });
        for (let passedMs = 0; passedMs < runMs / 2; passedMs += everyMs) {
          if (failing !== null) kernel.faults.failNext({ tool: failing, code: 'TOOL_FAILED' });
          if (isUndone) kernel.run('ipv4', 'nft', '*nat\n-F PREROUTING\nCOMMIT\n');
          else kernel.trigger('nft-generation');
          await clock.advance(everyMs);
        }
        const stopping = agent.stop();
        await clock.advance(20_000);
        await stopping;
        expect(kernel.spans.length).toBeGreaterThan(1);
        expect(findTooMuch(kernel.spans).slice(0, 1)).toEqual([]);
      },
    );
  });
});

/** A kernel that knows when it was read: on this clock nothing else of a look takes time. */
class TimedKernel extends FakeKernel {
  readonly spans: Span[] = [];
  readonly #clock: FakeClock;

  constructor(clock: FakeClock) {
    super(clock);
    this.#clock = clock;
  }

  override async read(query: KernelQuery): Promise<KernelReading> {
    const from = this.#clock.now();
    try {
      return await super.read(query);
    } finally {
      this.spans.push({ from, to: this.#clock.now() });
    }
  }
}
