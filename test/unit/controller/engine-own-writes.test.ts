import { OwnWrites } from '../../../controller/engine.ts';
import { test, expect } from '@jest/globals';

const key = 'Service/apps/a';
const object = 'VirtualIP/10.0.9.10';

const path = '/virtualips/10.0.9.10';

function begin(before: string | null, after: string | null | undefined) {
  const { judge } = beginRead(before, after, null);
  return (known: string | null, now = 0) => judge(known, now) === 'wait';
}

function beginRead(before: string | null, after?: string | null, readPath: string | null = path) {
  const writes = new OwnWrites();
  const add = (version: string | null | undefined) => {
    writes.add(key, { object, before, after: version, readPath, untilMs: 100 });
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
  expect([isAwaited('5', 99), isAwaited('5', 100), isAwaited('5', 0)]).toEqual([true, false, false]);
});

/** Versions: of before, and after; none stands for no answer. Then `VERSION MS is VERDICT`, or `add VERSION`, in turn. */
test.each([
  // It was written, and no list has it: the key waits, and looks again later.
  ['without an answer is read', 'null none', 'null 0 is read, null 1000 is read, add 7, null 0 is wait'],
  ['that is not shown is read', 'null 7', 'null 0 is wait, null 100 is read, 7 0 is clear'],
  ['without an answer, and not made, is done with', 'null none', 'add null, null 0 is clear'],
  ['without an answer is read where nothing is new', '5 none', '5 0 is read'],
  ['without an answer is done with by a later version', '5 none', '6 0 is clear'],
  ['without an answer is done with when it is gone', '5 none', 'null 0 is clear'],
  ['without an answer is done with when it is there', 'null none', '6 0 is clear'],
  ['that changed and is not shown is read', '5 7', '5 99 is wait, 5 100 is read, 7 100 is clear'],
  ['that is as the informer has it is done with', 'a b', 'a 100 is read, add a, a 100 is clear'],
])("a write to an object that is not the step's own %s (%s): %s", (_, versions, timeline) => {
  const read = (text = '') => (text === 'null' ? null : text);
  const [before, after] = versions.split(' ');
  const { judge, add } = beginRead(read(before) ?? null, after === 'none' ? undefined : read(after));
  for (const step of timeline.split(', ')) {
    const [version, ms, , verdict] = step.split(' ');
    if (version === 'add') add(read(ms));
    else expect([step, judge(read(version), Number(ms))]).toEqual([step, verdict]);
  }
});

test('whose steps wrote an object is known until these are shown', () => {
  const writes = new OwnWrites();
  const write = { object, before: '1', readPath: null, untilMs: 100 };
  writes.add('a', { ...write, after: '2' });
  writes.add('b', { ...write, after: '3' });
  expect(writes.findWriters(object)).toEqual(['a', 'b']);
  expect([writes.judge('a', () => '2', 0).kind, writes.findWriters(object)]).toEqual(['clear', ['b']]);
  expect(writes.findWriters('Service/other')).toEqual([]);
  expect(writes.judge('unknown', () => null, 0).kind).toBe('clear');
  // Its next write is of another object.
  writes.add('b', { ...write, object: 'Service/other', after: '9' });
  expect([writes.findWriters(object), writes.findWriters('Service/other')]).toEqual([[], ['b']]);
});
