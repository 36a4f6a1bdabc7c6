import { FakeClock } from '../../support/fakes/clock.ts';
import { SyncLog } from '../../../balancer/log.ts';
import { WriteGaps } from '../../../balancer/sync.ts';
import { test, expect } from '@jest/globals';
import { createRecordingLogger } from '../../support/fakes/logger.ts';
import { makePortBalance } from '../../support/fakes/port-balance.ts';

/** When changes are written that come every 20 ms for some seconds, each of which takes 10 ms to write. */
async function listWrites(countRules: () => Promise<number>, seconds = 10): Promise<number[]> {
  const clock = new FakeClock();
  const gaps = new WriteGaps(clock, countRules);
  const writes: number[] = [];
  for (let at = 0; at < seconds * 1000; at += 20) {
    await clock.advance(10);
    if (gaps.waitMs === 0) {
      writes.push(clock.now());
      await gaps.noteWrite();
    }
    await clock.advance(10);
  }
  return writes;
}

const listPauses = (writes: readonly number[]) =>
  writes.slice(1).map((at, index) => at - (writes[index] ?? 0));

test('where others have many rules, nobody waits for longer than a burst until all can be listed twice', async () => {
  const pauses = listPauses(await listWrites(() => Promise.resolve(20_000)));
  const long = pauses.filter((pause) => pause >= 800);
  // Half a second of writes and 0.8 s without.
  expect(long.length).toBeGreaterThanOrEqual(7);
  expect(Math.max(...pauses)).toBeLessThanOrEqual(820);
  expect(pauses.filter((pause) => pause < 800).every((pause) => pause === 20)).toBe(true);
});

test.each([
  ['few rules has every change written at once', () => Promise.resolve(1000), 20, 20],
  ['a million rules holds a change for two seconds at most', () => Promise.resolve(1_000_000), 2000, 2020],
  ['rules that cannot be counted has gaps of a second', () => Promise.reject(new Error('no')), 1000, 1000],
])('a host of %s', async (_, countRules, least, most) => {
  const longest = Math.max(...listPauses(await listWrites(countRules)));
  expect([longest >= least, longest <= most]).toEqual([true, true]);
});

test('a single change after a while waits for nothing', async () => {
  const clock = new FakeClock();
  const gaps = new WriteGaps(clock, () => Promise.resolve(1_000_000));
  for (let change = 0; change < 5; change += 1) {
    expect(gaps.waitMs).toBe(0);
    await gaps.noteWrite();
    await clock.advance(2500);
  }
});

test('rules are counted now and then; where they cannot be counted, the last gap stays', async () => {
  let counted = 0;
  const pauses = listPauses(
    await listWrites(() => {
      counted += 1;
      return counted === 1 ? Promise.resolve(20_000) : Promise.reject(new Error('no'));
    }, 70),
  );
  expect(counted).toBeLessThanOrEqual(3);
  expect(counted).toBeGreaterThan(1);
  expect(pauses.slice(-200).some((pause) => pause >= 800)).toBe(true);
});

test('a Service of a thousand ports has a short line for each change, also of the last port', () => {
  const logger = createRecordingLogger();
  const log = new SyncLog(logger);
  const list = (last: string) =>
    Array.from({ length: 1000 }, (_, at) =>
      makePortBalance(at === 999 ? [{ address: last, port: 80 }] : [], { port: at + 1 }),
    );
  log.balanced(new Map([['default/web', list('10.244.1.2')]]));
  log.balanced(new Map([['default/web', []]]));
  log.balanced(new Map([['default/web', [...list('10.244.1.2')].reverse()]]));
  const lines = logger.lines.map(({ message }) => message);
  expect(lines.map((line) => line.length < 300)).toEqual([true, true, true]);
  expect(lines[0]).toMatch(/^default\/web is balanced: .* and 995 more ports$/);
  expect(lines[2]).toContain('10.0.9.10:1000 TCP to 1 endpoint');
});
