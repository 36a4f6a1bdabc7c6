import { test, expect } from '@jest/globals';
import { LowPriority } from '../../../controller/step.ts';

test('ten keys have their turn in a second, in the order in which they came', () => {
  const lowPriority = new LowPriority();
  expect(['a', 'b', 'c'].map((key) => lowPriority.wait(key, 5000))).toEqual([0, 100, 200]);
  expect([lowPriority.wait('b', 5040), lowPriority.wait('c', 5100)]).toEqual([60, 100]);
  expect(lowPriority.wait('b', 5100)).toBe(0);
  // Its turn is over: it comes last the next time.
  expect(lowPriority.wait('b', 5100)).toBe(200);
});

test('keys that wait no longer give their places back: flapping seats delay nobody for long', () => {
  const lowPriority = new LowPriority();
  const keys = Array.from({ length: 200 }, (_, index) => String(index));
  for (let flap = 0; flap < 30; flap += 1) {
    for (const key of keys) lowPriority.wait(key, flap * 1000);
    for (const key of keys) lowPriority.forget(key);
  }
  expect(Math.max(...keys.map((key) => lowPriority.wait(key, 30_000)))).toBeLessThanOrEqual(20_000);
});
