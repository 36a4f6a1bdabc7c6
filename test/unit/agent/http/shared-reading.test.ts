import { expect, test } from '@jest/globals';
import { shareReading } from '../../../../agent/http/shared-reading.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';

/** A reading that takes a second each time, and fails where it is told to. */
function createReading(freshMs: number) {
  const clock = new FakeClock();
  const state = { count: 0, isFailing: false };
  const read = shareReading(
    () => {
      state.count += 1;
      const { count, isFailing } = state;
      return new Promise<number>((resolve, reject) => {
        clock.schedule(1000, () => {
          if (isFailing) reject(new Error('failed'));
          else resolve(count);
        });
      });
    },
    { clock, freshMs },
  );
  return { clock, state, read };
}

test('all who ask while a reading is under way, or fresh, get that one', async () => {
  const { clock, state, read } = createReading(2000);
  const answers = [read(), read()];
  await clock.advance(1900);
  answers.push(read());
  await clock.advance(200);
  answers.push(read());
  await clock.advance(1000);
  expect([await Promise.all(answers), state.count]).toEqual([[1, 1, 1, 2], 2]);
});

test('without a time to stay fresh only those at the same time share one', async () => {
  const { clock, read } = createReading(0);
  const first = [read(), read()];
  await clock.advance(1000);
  const second = read();
  await clock.advance(1000);
  expect(await Promise.all([...first, second])).toEqual([1, 1, 2]);
});

test('a reading that failed is not kept', async () => {
  const { clock, state, read } = createReading(60_000);
  state.isFailing = true;
  const failed = expect(read()).rejects.toThrow('failed');
  await clock.advance(1000);
  await failed;
  state.isFailing = false;
  const next = read();
  await clock.advance(1000);
  expect(await next).toBe(2);
});
