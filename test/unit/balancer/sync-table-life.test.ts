import { FakeClock } from '../../support/fakes/clock.ts';
import { ControllerWatch, TableLife } from '../../../balancer/sync.ts';
import { createRecordingLogger } from '../../support/fakes/logger.ts';
import { describe, test, expect } from '@jest/globals';

/** A balancer that looks each second for so many, with what each look's write comes to. */
async function live(seconds: number, canWrite: (second: number) => boolean, canRenew = canWrite) {
  const clock = new FakeClock();
  const renewals: number[] = [];
  let second = 0;
  const life = new TableLife(clock, {
    renew: () => {
      if (!canRenew(second)) return Promise.reject(new Error('nft hangs'));
      renewals.push(second);
      return Promise.resolve();
    },
  });
  const off: number[] = [];
  for (; second < seconds; second += 1) {
    const [renewed] = await Promise.allSettled([life.renew()]);
    life.recordOutcome(renewed.status === 'fulfilled' && canWrite(second));
    if (!life.isOn) off.push(second);
    await clock.advance(1000);
  }
  return { renewals, off };
}

describe('the tables count', () => {
  test('as long as they are written: they are renewed every ten seconds', async () => {
    expect(await live(35, () => true)).toEqual({ renewals: [0, 10, 20, 30], off: [] });
  });

  test('for another minute while nothing can be written, and then run out', async () => {
    const canWrite = (second: number) => second < 5 || second > 110;
    const { renewals, off } = await live(120, canWrite, () => true);
    expect(renewals).toEqual([0, 10, 20, 30, 40, 50, 60, 112]);
    expect([off[0], off.at(-1)]).toEqual([90, 111]);
  });

  test('not without nft: kube-proxy has the connections half a minute after the start', async () => {
    const { renewals, off } = await live(60, () => false);
    expect([renewals, off[0], off.at(-1)]).toEqual([[], 30, 59]);
  });
});

/** What reads of the election's Lease find each 10 s, `-` for one that fails, to after how many no controller leads, or one does again. */
const readsToTurns = {
  ...{ 'a a a a': [3], 'none none none': [3], 'a a - a a - a a a': [9], 'a a a - a - b c c c': [3, 7, 10] },
  ...{ 'a b c d e': [], 'a a b b c c': [], '- - - - -': [] },
};
test.each(Object.entries(readsToTurns))(
  'reads that find %s show whether a controller leads',
  async (found, turns) => {
    const clock = new FakeClock();
    const [reads, turned]: [string[], number[]] = [[], []];
    const readElection = () => {
      const text = found.split(' ')[reads.length] ?? '';
      reads.push(text);
      return text === '-'
        ? Promise.reject(new Error('away'))
        : Promise.resolve(text === 'none' ? null : text);
    };
    const ports = { clock, logger: createRecordingLogger(), readElection };
    const watch = new ControllerWatch(ports, () => turned.push(reads.length));
    await clock.advance(60_000);
    watch.need(true);
    await clock.advance(10_000 * found.split(' ').length);
    expect([reads.join(' '), turned]).toEqual([found, turns]);
    watch.need(false);
    expect([watch.isAway, clock.pending]).toEqual([false, 0]);
  },
);
