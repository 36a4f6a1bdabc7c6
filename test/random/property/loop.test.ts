import { type Event, event, history, answer, createKernel, run, createPorts } from './hosts.ts';
import { fc } from '../../support/random/fc.ts';
import { config } from './configs.ts';
import { test, expect } from '@jest/globals';
import { FakeClock } from '../../support/fakes/clock.ts';
import { startAgent } from '../../support/agent/running-agent.ts';
import { printForeign, printOurs } from './tables.ts';
import { observeAndAssess } from '../../../agent/read-host.ts';
import { emptyState } from '../../../agent/decide/decision.ts';
import { forAll } from './for-all.ts';

/** A tool that hangs takes its 10 s, and rest follows. */
const quietMs = 60_000;

/** One step of a walk: something happens, or a tool fails at its next call, and some time passes. */
type Step = { readonly passMs: number } & (
  | { readonly happening: Event }
  | {
      readonly failing: string;
      readonly code: 'TOOL_FAILED' | 'TOOL_NOT_PERMITTED' | 'TOOL_OUTPUT_UNEXPECTED';
    }
);

/** The tools of every look; those that write are named by family and backend too. */
const tools = [
  'netlink',
  'nft',
  'iptables-nft-save',
  'ip6tables-legacy-save',
  'iptables-nft-restore',
  'ip6tables-nft-restore',
  'iptables-legacy-restore',
];

const passMs = fc.oneof(fc.constant(0), fc.nat({ max: 100 }), fc.nat({ max: 3000 }));

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ passMs, happening: event }) },
  {
    weight: 1,
    arbitrary: fc.record({
      passMs,
      failing: fc.constantFrom(...tools),
      code: fc.constantFrom('TOOL_FAILED', 'TOOL_NOT_PERMITTED', 'TOOL_OUTPUT_UNEXPECTED'),
    }),
  },
);

const walk = fc.record({
  before: history,
  answer,
  config,
  steps: fc.array(step, { maxLength: 12 }),
  /** At most one tool hangs in a walk: each takes its 10 s. */
  hanging: fc.option(fc.constantFrom(...tools)),
});

test('whatever strangers do, after 60 s of quiet all is in sync, and they find their own rules as they left them (I5, I7)', async () => {
  await forAll({ runs: 150 }, [walk], async ({ before, answer: word, config: wanted, steps, hanging }) => {
    const clock = new FakeClock();
    const kernel = createKernel(before, clock);
    const agent = startAgent({ clock, kernel, config: wanted, answer: word });
    if (hanging !== null) kernel.faults.hangNext(hanging);

    for (const { passMs: ms, ...what } of steps) {
      if ('happening' in what) run(kernel, what.happening);
      else kernel.faults.failNext({ tool: what.failing, code: what.code });
      const foreign = printForeign(kernel);
      await clock.advance(ms);
      expect(printForeign(kernel)).toEqual(foreign);
    }
    kernel.trigger('nft-generation');
    await clock.advance(quietMs);

    expect((await observeAndAssess(createPorts(kernel, word), wanted, emptyState)).plan.tables).toEqual([]);
    expect(kernel.breaches).toEqual([]);
    await agent.agent.stop();
  });
});

test('an agent that is stopped leaves its rules and nothing that still runs (I8)', async () => {
  await forAll({ runs: 50 }, [history, config, fc.nat({ max: 200 })], async (before, wanted, ms) => {
    const clock = new FakeClock();
    const kernel = createKernel(before, clock);
    const { agent } = startAgent({ clock, kernel, config: wanted });
    await clock.advance(ms);
    await agent.stop();
    const [rules, writes] = [printOurs(kernel), kernel.applied.length];
    kernel.trigger('nft-generation');
    await clock.advance(300_000);
    expect(printOurs(kernel)).toEqual(rules);
    expect(kernel.applied).toHaveLength(writes);
    expect(clock.pending).toBe(0);
  });
});
