import { type ProbePace, ProbeTurns } from '../../../balancer/nodes/health.ts';
import { describe, test, expect } from '@jest/globals';
import { fc } from '../../support/random/fc.ts';
import { judgePeers, type NodeState, unknownNode, addAnswer } from '../../../balancer/nodes/directory.ts';
import { forAll } from './for-all.ts';
import { countMost } from '../../support/fakes/sent-log.ts';

const pace: ProbePace = { intervalMs: 250, perSecond: 400 };

/** When connects begin while timers come late, some nodes are doubtful, and others are wanted at once. */
function listBegins(
  count: number,
  choices: readonly number[],
): { readonly begins: number[]; readonly asked: Set<string> } {
  let at = 0;
  const next = () => (choices[(at += 1) % choices.length] ?? 0) / 100;
  const turns = new ProbeTurns(next, pace);
  const names = Array.from({ length: count }, (_, number) => `w${number}`);
  turns.setNodes(new Set(names), 0);
  const begins: number[] = [];
  const asked = new Set<string>();
  for (let now = 0; now < 4000 && turns.dueAt < Infinity;) {
    now = Math.max(now, turns.dueAt) + (next() < 0.1 ? next() * 300 : 0);
    const node = turns.take(now);
    if (node === null) continue;
    begins.push(now);
    asked.add(node);
    turns.ended(node, { askedAt: now, isDoubtful: next() < 0.3 });
    if (next() < 0.2) turns.hurry(names[Math.floor(next() * count)] ?? '', now);
  }
  return { begins, asked };
}

describe('turns of connects', () => {
  test('never begin more than 400 times within a second, whatever the number of nodes', async () => {
    await forAll(
      { runs: 25 },
      [fc.integer({ min: 1, max: 700 }), fc.array(fc.nat(99), { minLength: 30 })],
      (count, choices) => {
        const { begins } = listBegins(count, choices);
        expect(countMost(begins, 1000)).toBeLessThanOrEqual(pace.perSecond);
      },
    );
  });

  test('ask everybody, also where there are more than can be asked each 250 ms', () => {
    const { asked } = listBegins(700, [50, 13, 99, 71, 34]);
    expect(asked.size).toBe(700);
  });
});

type Witness = typeof judgePeers;

interface World {
  /** Of each node: from when to when it is dead. */
  readonly deaths: readonly { readonly from: number; readonly to: number }[];
  /** From when to when this node's own network is away. */
  readonly cut: { readonly from: number; readonly to: number };
  readonly phases: readonly number[];
}

const endMs = 12_000;
const limitMs = 250;
const span = fc.tuple(fc.integer({ min: 2000, max: 8000 }), fc.integer({ min: 0, max: 3000 }));
const toSpan = ([from, forMs]: readonly [number, number]) => ({ from, to: from + forMs });
const worlds = fc.record({
  deaths: fc.array(fc.oneof(span.map(toSpan), fc.constant({ from: 0, to: 0 })), {
    minLength: 2,
    maxLength: 5,
  }),
  cut: span.map(toSpan),
  phases: fc.array(fc.nat(249), { minLength: 5, maxLength: 5 }),
});

/** Nodes that were taken out while they lived all the time since a second before. */
function listWronged({ deaths, cut, phases }: World, judge: Witness): number[] {
  const wronged: number[] = [];
  const states: NodeState[] = deaths.map(() => unknownNode);
  const events: { readonly atMs: number; readonly run: () => void }[] = [];
  const schedule = (atMs: number, run: () => void) => events.push({ atMs, run });
  const askAt = (node: number, atMs: number) =>
    schedule(atMs, () => {
      ask(node, atMs);
    });
  const ask = (node: number, askedAt: number) => {
    const others = states.filter((_, other) => other !== node);
    const peers = judge(states[node] ?? unknownNode, others);
    const isAway = ({ from, to }: { from: number; to: number }) => askedAt >= from && askedAt < to;
    const isAnswered = !isAway(cut) && !isAway(deaths[node] ?? cut);
    const atMs = askedAt + (isAnswered ? 1 : limitMs);
    const end = () => {
      const before = states[node] ?? unknownNode;
      const after = addAnswer(before, { isAnswered, askedAt, peers }, atMs);
      states[node] = after;
      const isOut = before.outSince === null && after.outSince !== null;
      const { from, to } = deaths[node] ?? cut;
      if (isOut && !(from < to && atMs >= from && atMs - 1000 < to)) wronged.push(node);
      askAt(node, Math.max(atMs, askedAt + limitMs));
    };
    schedule(atMs, end);
  };
  deaths.forEach((_, node) => askAt(node, phases[node] ?? 0));
  for (;;) {
    events.sort((one, other) => other.atMs - one.atMs);
    const event = events.pop();
    if (event === undefined || event.atMs > endMs) return wronged;
    event.run();
  }
}

/** A world of two others of which one can be lost last has no witness: see `judgePeers`. */
const hasLiving = ({ deaths }: World) => deaths.filter(({ from, to }) => from === to).length >= 2;

const brokenRules: Readonly<Record<string, Witness>> = {
  'no witness is needed': () => 'answer',
  'whoever was heard at any time is a witness': (_, others) =>
    others.some(({ history }) => history.reachedAt > -Infinity) ? 'answer' : 'awaited',
};

describe('the witness rule', () => {
  test('takes no living node out, whatever becomes of others and of the own network', async () => {
    await forAll({ runs: 300 }, [worlds.filter(hasLiving)], (world) => {
      expect(listWronged(world, judgePeers)).toEqual([]);
    });
  });

  test.each(Object.entries(brokenRules))('is held to it: %s', (_, rule) => {
    const found = fc.check(
      fc.property(worlds.filter(hasLiving), (world) => listWronged(world, rule).length === 0),
      { numRuns: 300, seed: 1 },
    );
    expect(found.failed).toBe(true);
  });
});
