import { expect, test } from '@jest/globals';
import { OwnWrites } from '../../../../controller/reconcile/own-writes.ts';

const key = 'Service/apps/a';
const object = 'VirtualIP/10.0.9.10';

function begin(before: string | null, after: string | null) {
  const writes = new OwnWrites();
  writes.add(key, { object, before, after, untilMs: 100 });
  return (known: string | null, now = 0) => writes.isAwaited(key, () => known, now);
}

test('a write is awaited until the informer has that version, or a later one', () => {
  expect(begin('5', '7')('5')).toBe(true);
  expect(begin('5', '7')('6')).toBe(true);
  expect(begin('5', '7')('7')).toBe(false);
  expect(begin('5', '7')('10')).toBe(false);
  // As numbers: as texts 10 is before 9.
  expect(begin('8', '10')('9')).toBe(true);
});

test('an object that was created is awaited until it is there', () => {
  expect(begin(null, '7')(null)).toBe(true);
  expect(begin(null, '7')('7')).toBe(false);
});

test('one that was deleted, until it is not, or another one is', () => {
  expect(begin('5', null)('5')).toBe(true);
  expect(begin('5', null)(null)).toBe(false);
  expect(begin('5', null)('9')).toBe(false);
});

test('one that was written, and is gone since, is not awaited', () => {
  expect(begin('5', '7')(null)).toBe(false);
});

test('versions that are no numbers: any change will do', () => {
  expect(begin('a', 'b')('a')).toBe(true);
  expect(begin('a', 'b')('c')).toBe(false);
});

test('nothing is awaited for longer than that, and what was shown once is forgotten', () => {
  const isAwaited = begin('5', '7');
  expect(isAwaited('5', 99)).toBe(true);
  expect(isAwaited('5', 100)).toBe(false);
  expect(isAwaited('5', 0)).toBe(false);
});

test('whose steps wrote an object is known until these are shown', () => {
  const writes = new OwnWrites();
  writes.add('a', { object, before: '1', after: '2', untilMs: 100 });
  writes.add('b', { object, before: '1', after: '3', untilMs: 100 });
  expect(writes.findWriters(object)).toEqual(['a', 'b']);
  expect(writes.isAwaited('a', () => '2', 0)).toBe(false);
  expect(writes.findWriters(object)).toEqual(['b']);
  expect(writes.findWriters('Service/other')).toEqual([]);
  expect(writes.isAwaited('unknown', () => null, 0)).toBe(false);
});
