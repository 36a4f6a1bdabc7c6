import { OwnWrites } from '../../../controller/engine.ts';
import { test, expect, describe } from '@jest/globals';

const key = 'Service/apps/a';
const object = 'VirtualIP/10.0.9.10';

const path = '/virtualips/10.0.9.10';

function begin(before: string | null, after: string | null | undefined) {
  const writes = new OwnWrites();
  writes.add(key, { object, before, after, readPath: null, untilMs: 100 });
  return (known: string | null, now = 0) => writes.judge(key, () => known, now).kind === 'wait';
}

function beginRead(before: string | null, after: string | null | undefined) {
  const writes = new OwnWrites();
  const add = (version: string | null | undefined) => {
    writes.add(key, { object, before, after: version, readPath: path, untilMs: 100 });
  };
  add(after);
  return { add, judge: (known: string | null, now = 0) => writes.judge(key, () => known, now).kind };
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

describe("a write to an object that is not the step's own", () => {
  test('of which no answer came is read before the next step', () => {
    const { judge, add } = beginRead(null, undefined);
    expect([judge(null), judge(null, 1000)]).toEqual(['read', 'read']);
    // It was written, and no list has it: the key waits, and looks again later.
    add('7');
    expect([judge(null), judge(null, 100)]).toEqual(['wait', 'read']);
    expect([judge('7'), judge(null)]).toEqual(['clear', 'clear']);
  });

  test('of which no answer came, and which was not made, is done with once it is read', () => {
    const { judge, add } = beginRead(null, undefined);
    add(null);
    expect(judge(null)).toBe('clear');
  });

  test('of which no answer came is done with when the informer shows any later version', () => {
    expect(beginRead('5', undefined).judge('5')).toBe('read');
    expect(beginRead('5', undefined).judge('6')).toBe('clear');
    expect(beginRead('5', undefined).judge(null)).toBe('clear');
    expect(beginRead(null, undefined).judge('6')).toBe('clear');
  });

  test('that the informer does not show in time is read before the next step', () => {
    const { judge } = beginRead('5', '7');
    expect([judge('5', 99), judge('5', 100), judge('7', 100)]).toEqual(['wait', 'read', 'clear']);
  });

  test('that is as the informer has it is done with, whatever versions look like', () => {
    const { judge, add } = beginRead('a', 'b');
    expect(judge('a', 100)).toBe('read');
    add('a');
    expect(judge('a', 100)).toBe('clear');
  });
});

test('whose steps wrote an object is known until these are shown', () => {
  const writes = new OwnWrites();
  const write = { object, before: '1', readPath: null, untilMs: 100 };
  writes.add('a', { ...write, after: '2' });
  writes.add('b', { ...write, after: '3' });
  expect(writes.findWriters(object)).toEqual(['a', 'b']);
  expect(writes.judge('a', () => '2', 0).kind).toBe('clear');
  expect(writes.findWriters(object)).toEqual(['b']);
  expect(writes.findWriters('Service/other')).toEqual([]);
  expect(writes.judge('unknown', () => null, 0).kind).toBe('clear');
  // Its next write is of another object.
  writes.add('b', { ...write, object: 'Service/other', after: '9' });
  expect([writes.findWriters(object), writes.findWriters('Service/other')]).toEqual([[], ['b']]);
});
