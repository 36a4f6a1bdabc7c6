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

test.each([
  ['a write', '5 to 7', 'waits at 5 and 6, not at 7 and 10'],
  // As numbers: as texts 10 is before 9.
  ['a write', '8 to 10', 'waits at 9, not at 10'],
  ['an object that was created', 'null to 7', 'waits at null, not at 7'],
  ['one that was deleted, until it is not, or another one is', '5 to null', 'waits at 5, not at null and 9'],
  ['one that was written, and is gone since', '5 to 7', 'waits at 5, not at null'],
  ['versions that are no numbers: any change will do', 'a to b', 'waits at a, not at c'],
])('%s, %s, is awaited until the informer has that version, or a later one: %s', (_, change, said) => {
  const read = (text = '') => text.split(/ and | to /).map((one) => (one === 'null' ? null : one));
  const [before = null, after = null] = read(change);
  const [, waiting, shown] = /^waits at (.*), not at (.*)$/.exec(said) ?? [];
  expect(read(waiting).map((known) => begin(before, after)(known))).not.toContain(false);
  expect(read(shown).map((known) => begin(before, after)(known))).not.toContain(true);
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
