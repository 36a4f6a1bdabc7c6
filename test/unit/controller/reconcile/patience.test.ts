import { expect, test } from '@jest/globals';
import { Patience } from '../../../../controller/reconcile/patience.ts';

test('ten keys have their turn in a second, in the order in which they came', () => {
  const patience = new Patience();
  expect(['a', 'b', 'c'].map((key) => patience.wait(key, 5000))).toEqual([0, 100, 200]);
  expect(patience.wait('b', 5040)).toBe(60);
  expect(patience.wait('c', 5100)).toBe(100);
  expect(patience.wait('b', 5100)).toBe(0);
  // Its turn is over: it comes last the next time.
  expect(patience.wait('b', 5100)).toBe(200);
});

test('a key that waits no longer gives its place back to nobody, and asks for a new one', () => {
  const patience = new Patience();
  patience.wait('a', 0);
  expect(patience.wait('b', 0)).toBe(100);
  patience.forget('b');
  expect(patience.wait('b', 0)).toBe(200);
});
