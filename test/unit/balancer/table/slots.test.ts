import {
  type Weights,
  fillSlots,
  shareSlots,
  countSlots,
  hashSlots,
} from '../../../../balancer/table/slots.ts';
import { describe, test, expect } from '@jest/globals';
import { fc } from '../../../support/random/fc.ts';

const pods = (count: number) => Array.from({ length: count }, (_, at) => `10.244.0.${at} . 8080`);

const alike = (ends: readonly string[], weight = 1) => new Map(ends.map((end) => [end, weight]));

const weigh = (...weights: readonly number[]): Weights =>
  new Map(weights.map((weight, at) => [String.fromCharCode(97 + at), weight]));

const count = (slots: readonly string[], end: string) => slots.filter((slot) => slot === end).length;

describe('slots of endpoints that are chosen by chance or in turn', () => {
  test.each([
    ['are as many as endpoints, one each', '', alike(['a', 'b', 'c']), 'a b c'],
    ['do so at the largest weight', '', alike(['a', 'b', 'c'], 256), 'a b c'],
    ['do so where all weigh nothing', '', alike(['a', 'b', 'c'], 0), 'a b c'],
    ['stay where they are; one that goes is replaced in its place', 'a b c', alike(['c', 'd', 'a']), 'a d c'],
    ['behind the last one fill the gaps when there are fewer', 'a b c', alike(['b', 'c']), 'c b'],
    ['hold an endpoint once that was there twice', 'a a b', alike(['a', 'b']), 'a b'],
    ['are as many as weights in lowest terms, and take turns', '', weigh(2, 4, 2), 'b a c b'],
  ])('%s', (_, before, weights, slots) => {
    expect(fillSlots(before.split(' ').filter(Boolean), weights).join(' ')).toBe(slots);
  });

  test('are as many as endpoints, also where these are many or weigh much', () => {
    expect(fillSlots([], alike(pods(2000)))).toEqual(pods(2000));
    expect(count(fillSlots([], weigh(256, 1)), 'a')).toBe(256);
  });

  test('are 1,024 at most, or as many as endpoints', () => {
    const slots = fillSlots([], weigh(256, 255, 254, 253, 251, 1));
    expect([slots.length, count(slots, 'f')]).toEqual([1024, 1]);
    const many = new Map([...alike(pods(1500)), ['heavy', 256]]);
    expect(fillSlots([], many)).toHaveLength(1501);
    expect(new Set(fillSlots([], many)).size).toBe(1501);
  });

  test('change by as many as one weight changes', () => {
    const before = fillSlots([], weigh(10, 7, 5, 3));
    const after = fillSlots(before, weigh(10, 7, 6, 3));
    expect(after.filter((slot, at) => slot !== before[at])).toEqual(['c']);
    const fewer = fillSlots(before, weigh(10, 4, 5, 3));
    expect(fewer.filter((slot, at) => slot !== before[at]).length).toBeLessThanOrEqual(3);
  });
});

describe('slots by open connections', () => {
  const counts = (slots: readonly string[], ends: readonly string[]) => ends.map((end) => count(slots, end));

  test('are as many whatever the parts, and change by as many as parts change', () => {
    const [even, uneven] = [
      [1, 1, 1],
      [0.625, 0.625, 1.75],
    ].map((parts) => shareSlots([], alike(['a', 'b', 'c']), parts));
    expect(counts(even ?? [], ['a', 'b', 'c'])).toEqual([20, 20, 20]);
    expect(counts(uneven ?? [], ['a', 'b', 'c'])).toEqual([13, 12, 35]);
    const after = shareSlots(even ?? [], alike(['a', 'b', 'c']), [0.625, 0.625, 1.75]);
    expect(after.filter((slot, at) => slot !== even?.[at])).toHaveLength(15);
  });

  test('count beside weights, and are 1,024 where weights differ or endpoints are many', () => {
    const slots = shareSlots([], weigh(3, 1), [0.5, 1.5]);
    expect([slots.length, count(slots, 'a'), count(slots, 'b')]).toEqual([1024, 512, 512]);
    expect(shareSlots([], alike(pods(100)), null)).toHaveLength(1024);
    expect(shareSlots([], alike(pods(1500)), null)).toHaveLength(1500);
    expect(counts(shareSlots([], weigh(0, 0), [1, 1]), ['a', 'b'])).toEqual([20, 20]);
  });

  test('stay as they are while nothing was counted; an endpoint that is new gets its part', () => {
    const before = shareSlots([], alike(['a', 'b', 'c']), [0.625, 0.625, 1.75]);
    expect(shareSlots(before, alike(['a', 'b', 'c']), null)).toEqual(before);
    const more = shareSlots(before, alike(['a', 'b', 'c', 'd']), null);
    expect(counts(more, ['a', 'b', 'c', 'd'])).toEqual([13, 12, 35, 20]);
    expect(counts(shareSlots(['x', 'y'], alike(['a', 'b']), null), ['a', 'b'])).toEqual([20, 20]);
  });
});

const someWeights = fc.array(fc.integer({ min: 0, max: 2560 }), { minLength: 1, maxLength: 40 });

describe('shares', () => {
  test('differ by less than a slot from exact ones, but that each weight has a slot', () => {
    fc.assert(
      fc.property(someWeights, fc.integer({ min: 251, max: 1024 }), (weights, total) => {
        const sum = weights.reduce((before, weight) => before + weight, 0);
        fc.pre(sum > 0);
        const exact = weights.map((weight) => (total * weight) / sum);
        const counts = countSlots(weights, total);
        expect(counts.reduce((before, one) => before + one, 0)).toBe(total);
        expect(counts.map((one) => one > 0)).toEqual(weights.map((weight) => weight > 0));
        // Who has one slot for less than one takes it from the others.
        const surplus = exact.filter((share) => share > 0 && share < 1).length;
        for (const [at, one] of counts.entries())
          expect(Math.abs(one - (exact[at] ?? 0))).toBeLessThan(1 + surplus);
        if (surplus === 0)
          for (const [at, one] of counts.entries()) expect(Math.abs(one - (exact[at] ?? 0))).toBeLessThan(1);
      }),
    );
  });

  test('do not depend on the order of endpoints, but for the last slot, nor on what was before', () => {
    fc.assert(
      fc.property(someWeights, (weights) => {
        const ends = weights.map((weight, at): [string, number] => [`e${at}`, weight]);
        const tally = (wanted: Weights, before: readonly string[] = []) => {
          const slots = fillSlots(before, wanted);
          return ends.map(([end]) => count(slots, end));
        };
        const first = tally(new Map(ends));
        expect(tally(new Map(ends), fillSlots([], new Map(ends.toReversed())))).toEqual(first);
        for (const [at, one] of tally(new Map(ends.toReversed())).entries())
          expect(Math.abs(one - (first[at] ?? 0))).toBeLessThanOrEqual(1);
      }),
    );
  });
});

describe("slots for clients' addresses", () => {
  test.each([1, 3, 30, 100, 500])('are shared evenly by %i endpoints', (number) => {
    const slots = hashSlots(alike(pods(number)));
    const shares = pods(number).map((pod) => count(slots, pod));
    expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(1);
    expect(slots.length).toBeGreaterThanOrEqual(8 * number);
  });

  test('of other endpoints mostly stay when one goes', () => {
    const [before, after] = [hashSlots(alike(pods(20))), hashSlots(alike(pods(20).slice(1)))];
    const others = before.filter((slot) => slot !== pods(20)[0]);
    const moved = before.filter((slot, at) => slot !== pods(20)[0] && after[at] !== slot);
    expect(moved.length).toBeLessThan(others.length / 4);
  });

  test('follow weights, and stay as many: few clients move when one weight changes', () => {
    const ends = pods(10);
    const [before, after] = [1, 2].map((one) => hashSlots(new Map([...alike(ends), [ends[3] ?? '', one]])));
    expect(after).toHaveLength(before?.length ?? 0);
    expect(Math.abs(count(after ?? [], ends[3] ?? '') - (2 * 251) / 11)).toBeLessThan(1);
    const moved = (before ?? []).filter((slot, at) => slot !== after?.[at]);
    expect(moved.length).toBeLessThan(251 / 4);
  });

  test('do not depend on what was before, and are one order of the same endpoints on every node', () => {
    expect(hashSlots(alike(pods(5)))).toEqual(hashSlots(alike(pods(5), 7)));
    expect(hashSlots(alike(pods(5), 0))).toEqual(hashSlots(alike(pods(5))));
    expect(hashSlots(new Map())).toEqual([]);
  });

  test('are those that nodes of the version before have: a client keeps its endpoint', () => {
    const slots = hashSlots(alike(['10.244.1.2 . 8080', '10.244.2.2 . 8080', '10.244.3.2 . 8080']));
    const first = slots.slice(0, 12).map((slot) => slot[7]);
    expect(first.join('')).toBe('312112131322');
  });
});
