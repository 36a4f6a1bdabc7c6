import { describe, expect, test } from '@jest/globals';
import { fillSlots, hashSlots } from '../../../../balancer/decide/slots.ts';

const pods = (count: number) => Array.from({ length: count }, (_, at) => `10.244.0.${at} . 8080`);

describe('slots of endpoints that are chosen by chance or in turn', () => {
  test('are as many as endpoints, one each', () => {
    expect(fillSlots([], ['a', 'b', 'c'])).toEqual(['a', 'b', 'c']);
  });

  test('stay where they are; one that goes is replaced in its place', () => {
    expect(fillSlots(['a', 'b', 'c'], ['c', 'd', 'a'])).toEqual(['a', 'd', 'c']);
  });

  test('behind the last one fill the gaps when there are fewer', () => {
    expect(fillSlots(['a', 'b', 'c'], ['b', 'c'])).toEqual(['c', 'b']);
  });

  test('hold an endpoint once that was there twice', () => {
    expect(fillSlots(['a', 'a', 'b'], ['a', 'b'])).toEqual(['a', 'b']);
  });
});

describe("slots for clients' addresses", () => {
  test.each([1, 3, 30, 100, 500])('are shared evenly by %i endpoints', (count) => {
    const slots = hashSlots(pods(count));
    const shares = pods(count).map((pod) => slots.filter((slot) => slot === pod).length);
    expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(1);
    expect(slots.length).toBeGreaterThanOrEqual(8 * count);
  });

  test('of other endpoints mostly stay when one goes', () => {
    const [before, after] = [hashSlots(pods(20)), hashSlots(pods(20).slice(1))];
    const others = before.filter((slot) => slot !== pods(20)[0]);
    const moved = before.filter((slot, at) => slot !== pods(20)[0] && after[at] !== slot);
    expect(moved.length).toBeLessThan(others.length / 4);
  });

  test('do not depend on what was before', () => {
    expect(hashSlots(pods(5))).toEqual(hashSlots(pods(5)));
    expect(hashSlots([])).toEqual([]);
  });
});
