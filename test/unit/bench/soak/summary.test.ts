import type { Sample } from '../../../../tools/bench/soak/record.ts';
import { test, expect } from '@jest/globals';
import { findLeaks, findTrends } from '../../../../tools/bench/soak/summary.ts';

const mebibyte = 1024 ** 2;
const stepSeconds = 5;
const minutes = 60;

/** What an agent holds after so many minutes with faults. */
type Course = (minutes: number) => number;
const steady: Record<'memory' | 'descriptors' | 'children' | 'wakeupsPerSecond' | 'pid', Course> = {
  memory: () => 80,
  descriptors: () => 30,
  children: () => 1,
  wakeupsPerSecond: () => 30,
  pid: () => 7,
};

/** A minute of rest, an hour of faults, a minute of rest, of an agent that is steady but for what is given. */
function sampleRun(given: Partial<typeof steady>, length = minutes): Sample[] {
  const held = { ...steady, ...given };
  let wakeups = 0;
  return Array.from({ length: ((length + 2) * 60) / stepSeconds }, (_, index): Sample => {
    const at = (index * stepSeconds) / 60 - 1;
    wakeups += held.wakeupsPerSecond(at) * stepSeconds;
    return {
      ...{ kind: 'sample', agent: 'm1', atSeconds: index * stepSeconds, phase: toPhase(at, length) },
      // A heap breathes: up, and down again by a collection.
      memory: (held.memory(at) + (index % 12) / 2) * mebibyte,
      ...{ descriptors: held.descriptors(at), children: held.children(at), pid: held.pid(at) },
      ...{ wakeups, processorMs: 0, writes: 0 },
    };
  });
}

function toPhase(at: number, length: number): Sample['phase'] {
  if (at < 0) return 'before';
  return at < length ? 'faults' : 'after';
}

const busy = (at: number) => (at > 10 && at < 60 ? 90 : 30);

test.each<[string, Partial<typeof steady>, readonly string[], number?]>([
  ['nothing in an agent that stays as it is', {}, []],
  ['nothing in a heap that settles', { memory: (at) => 110 - 30 * Math.exp(-Math.max(0, at) / 5) }, []],
  ['nothing in memory that comes back in 15 min', { memory: (at) => (at > 30 && at < 45 ? 120 : 80) }, []],
  [
    'memory that grows by 8 MiB an hour',
    { memory: (at) => 80 + at * (8 / 60) },
    ['memory grows steadily: at least 81.3, 82.7, 84.0, 85.3, 86.7 MiB in the last 5 windows'],
  ],
  ['but not in a few minutes, in which a heap has not found its size', { memory: (at) => 80 + at }, [], 6],
  ['nothing in descriptors that come back', { descriptors: busy }, []],
  [
    'descriptors that do not come back, whatever they were meanwhile',
    { descriptors: (at) => busy(at) + (at > 50 ? 1 : 0) },
    ['30 descriptors at the beginning, and never fewer than 31 at the end'],
  ],
  [
    'child processes that stay',
    { children: (at) => (at > 59 ? 2 : 1) },
    ['1 children at the beginning, and never fewer than 2 at the end'],
  ],
  [
    'a process that is woken twice as often at the end',
    { wakeupsPerSecond: (at) => (at > 60 ? 60 : 30) },
    ['30 wakeups a second at the beginning, 60 at the end'],
  ],
  ['another process', { pid: (at) => (at > 30 ? 8 : 7) }, ['the agent was another process at the end']],
])('what speaks for a leak in an hour of faults: %s', (_, given, leaks, length = minutes) => {
  expect(findLeaks(sampleRun(given, length), length)).toEqual(leaks.map((leak) => `m1: ${leak}`));
});

test('a trend has the medians and the least of the first and the last sixth, and the slope', () => {
  const trends = findTrends(sampleRun({ descriptors: (at) => 30 + Math.floor(at) }));
  const { slopePerHour, ...descriptors } = trends.find(({ key }) => key === 'descriptors') ?? {
    slopePerHour: 0,
  };
  expect(descriptors).toEqual({
    ...{ agent: 'm1', key: 'descriptors' },
    ...{ first: 35, last: 85, firstLeast: 30, lastLeast: 80 },
  });
  expect(slopePerHour).toBeCloseTo(60, 0);
});
