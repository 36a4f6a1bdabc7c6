import type { Write, Confirmation } from '../../../controller/step.ts';
import type { ReadAnswer, WriteAnswer, ObjectClient, WriteOutcome } from '../../../lib/kubernetes/writes.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { TokenQueue } from '../../../lib/queue.ts';
import { type Execution, execute } from '../../../controller/engine.ts';
import { describe, test, expect } from '@jest/globals';

const write: Write = {
  ...{ method: 'PATCH', path: '/it', body: { a: 1 }, kind: 'Service', key: 'apps/a', confirm: [] },
};

interface Api {
  readonly read?: ReadAnswer<unknown> | (() => ReadAnswer<unknown>);
  readonly written?: Partial<WriteAnswer>;
}

/** A client that notes what it is asked, and whether this process leads for so many milliseconds. */
function begin({ read = { outcome: 'gone' }, written = {} }: Api) {
  const asked: string[] = [];
  const state = { leftMs: 4000 };
  const client: ObjectClient = {
    read: (({ path }: { path: string }, limitMs: number) => {
      asked.push(`read ${path} ${limitMs}`);
      return Promise.resolve(typeof read === 'function' ? read() : read);
    }) as ObjectClient['read'],
    write: ({ title, method, path, body }, limitMs) => {
      asked.push(`${title}: ${method} ${path} ${JSON.stringify(body)} ${limitMs}`);
      return Promise.resolve({ outcome: 'taken', detail: 'well', version: '7', ...written });
    },
  };
  const clock = new FakeClock();
  const pace = new TokenQueue({ capacity: 1, refillMs: 50 }, clock);
  const carry = (confirm: readonly Confirmation[] = [], more: Partial<Write> = {}): Promise<Execution> =>
    execute({ client, pace, writeMs: () => state.leftMs }, { ...write, confirm, ...more });
  return { asked, state, clock, carry };
}

const found = (resourceVersion: string): ReadAnswer<unknown> => ({
  outcome: 'found',
  object: { metadata: { resourceVersion } },
});

describe('execute', () => {
  test('makes the write in the time that is left, and answers the version', async () => {
    const { asked, carry, state } = begin({});
    state.leftMs = 1234;
    expect(await carry()).toEqual({ result: 'done', detail: 'well', version: '7' });
    expect(asked).toEqual(['changing Service apps/a: PATCH /it {"a":1} 1234']);
  });

  test.each<[WriteOutcome, Execution['result'], Execution['result']]>([
    ['taken', 'done', 'done'],
    ['conflict', 'stale', 'stale'],
    ['exists', 'stale', 'stale'],
    // Whoever wanted to delete it has nothing left to do.
    ['gone', 'stale', 'done'],
    ['forbidden', 'refused', 'refused'],
    ['refused', 'refused', 'refused'],
    ['unreachable', 'unknown', 'unknown'],
  ])('the answer %s to a change is %s, to a deletion %s', async (outcome, ofChange, ofDeletion) => {
    const written = { outcome, version: null };
    expect((await begin({ written }).carry()).result).toBe(ofChange);
    expect((await begin({ written }).carry([], { method: 'DELETE' })).result).toBe(ofDeletion);
  });

  test('sends nothing when this process does not lead', async () => {
    for (const confirm of [[], [{ path: '/other', version: null }]]) {
      const { asked, carry, state } = begin({});
      state.leftMs = 0;
      expect([(await carry(confirm)).result, asked]).toEqual(['late', []]);
    }
  });

  test('does not write when this process has ceased to lead while it read', async () => {
    const begun = begin({
      read: () => {
        begun.state.leftMs = 0;
        return found('5');
      },
    });
    expect((await begun.carry([{ path: '/other', version: '5' }])).result).toBe('late');
    expect(begun.asked).toEqual(['read /other 4000']);
  });

  test.each<[string, ReadAnswer<unknown>, string | null, Execution['result']]>([
    ['is as it was read', found('5'), '5', 'done'],
    ['has changed', found('6'), '5', 'stale'],
    ['is gone', { outcome: 'gone' }, '5', 'stale'],
    ['is gone, as before', { outcome: 'gone' }, null, 'done'],
    ['is there again', found('6'), null, 'stale'],
    ['may not be read', { outcome: 'forbidden', detail: 'no' }, '5', 'refused'],
    ['cannot be read', { outcome: 'unreachable', detail: 'no' }, '5', 'unknown'],
  ])('an object that it rests on %s', async (_, read, version, result) => {
    const { asked, carry } = begin({ read });
    expect((await carry([{ path: '/other', version }])).result).toBe(result);
    expect(asked).toHaveLength(result === 'done' ? 2 : 1);
  });

  test('every object that it rests on is read', async () => {
    const { asked, carry } = begin({ read: found('5') });
    await carry(['/one', '/two'].map((path) => ({ path, version: '5' })));
    const words = asked.map((line) => line.split(' ', 2).join(' '));
    expect(words).toEqual(['read /one', 'read /two', 'changing Service']);
  });
});
