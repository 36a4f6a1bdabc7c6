import { type Balancer, formatMember, type Listener } from '../driver.ts';
import { type Bench, ProcessEnd } from './bench.ts';
import { type Check } from './check.ts';
import { CheckFailed } from './check-failed.ts';
import { findDifference } from './compare.ts';
import { describeProgress, type Subject } from './subject.ts';

/** What holds when the driver's process ends between any two calls, and another one continues. */
export const endChecks: readonly Check[] = [
  {
    name: 'crash-create',
    title: 'a crash before each call of a creation: the next process finishes it, and can remove it whole',
    needs: [],
    run: checkCreate,
  },
  {
    name: 'crash-change',
    title: 'a crash before each call of a change: the next process finishes it',
    needs: [],
    run: checkChange,
  },
  {
    name: 'crash-remove',
    title: 'a crash before each call of remove: the next process leaves nothing',
    needs: [],
    run: checkRemoval,
  },
  {
    name: 'successor-first',
    title: 'no member leaves before its successor serves, wherever a change is cut off',
    needs: [],
    run: checkSuccessors,
  },
  {
    name: 'whole-commit',
    title: 'all of a change is in force or nothing of it, wherever it is cut off',
    needs: ['atomicCommit'],
    run: checkWhole,
  },
  {
    name: 'before-call',
    title: 'what beforeCall throws comes out of each method unchanged',
    needs: [],
    run: checkBeforeCall,
  },
];

function judgeEnd(ended: Subject, at: number): 'happened' | 'not reached' {
  return ended.calls.length < at ? 'not reached' : 'happened';
}

async function checkCreate(bench: Bench): Promise<void> {
  const wanted = bench.shapes.plain();
  const before = await bench.listObjects();
  await bench.atEachCall(async (at) => {
    const ended = bench.open({ endAt: at });
    await ended.settle(wanted);
    await bench.open().settle(wanted);
    await bench.expectSettled(wanted, 'after the next process');
    await removeAll(bench, wanted, before);
    // Once more: the next process finds only that the Service is gone.
    await bench.open({ endAt: at }).settle(wanted);
    await removeAll(bench, wanted, before);
    return judgeEnd(ended, at);
  });
}

async function removeAll(bench: Bench, { id }: Balancer, before: readonly string[] | null): Promise<void> {
  await bench.open().settleRemoval(id);
  await bench.open().expectOnly([], 'after remove');
  await bench.expectObjects(before, 'after remove');
}

async function checkChange(bench: Bench): Promise<void> {
  const { shapes } = bench;
  await bench.open().settle(shapes.plain());
  const before = await bench.listObjects();
  await bench.atEachCall(async (at) => {
    const ended = bench.open({ endAt: at });
    await ended.settle(shapes.changed());
    await bench.open().settle(shapes.changed());
    await bench.expectSettled(shapes.changed(), 'after the next process');
    await bench.open().settle(shapes.plain());
    await bench.expectSettled(shapes.plain(), 'after the change back');
    await bench.expectObjects(before, 'after the change back');
    return judgeEnd(ended, at);
  });
}

async function checkRemoval(bench: Bench): Promise<void> {
  const wanted = bench.shapes.plain();
  const before = await bench.listObjects();
  await bench.atEachCall(async (at) => {
    await bench.open().settle(wanted);
    const ended = bench.open({ endAt: at });
    await ended.settleRemoval(wanted.id);
    await removeAll(bench, wanted, before);
    return judgeEnd(ended, at);
  });
}

async function checkSuccessors(bench: Bench): Promise<void> {
  const { shapes } = bench;
  await bench.atEachCall(async (at) => {
    await bench.open().settle(shapes.plain());
    const ended = bench.open({ endAt: at });
    await ended.settle(shapes.changed());
    const owned = await bench.open().list();
    const [found] = owned.map(({ balancer }) => balancer);
    if (owned.length !== 1 || found === undefined)
      throw new CheckFailed(`after the crash, list has ${owned.length} balancers instead of 1`);
    expectSuccessors(found, shapes.plain(), shapes.changed());
    return judgeEnd(ended, at);
  });
}

/** Of a listener that both have: what both have is there; and what goes is there as long as anything that comes is not. */
function expectSuccessors(found: Balancer, before: Balancer, after: Balancer): void {
  for (const listener of before.listeners) {
    const next = after.listeners.find((one) => isSamePlace(one, listener));
    if (next === undefined) continue;
    const there = listMembers(found.listeners.find((one) => isSamePlace(one, listener)));
    const [old, wanted] = [listMembers(listener), listMembers(next)];
    const place = `${listener.protocol}/${listener.port}`;
    const gone = old.filter((member) => wanted.includes(member) && !there.includes(member));
    if (gone.length > 0) throw new CheckFailed(`${place} lost ${gone.join(', ')}, which was to stay`);
    const left = old.filter((member) => !wanted.includes(member) && !there.includes(member));
    const missing = wanted.filter((member) => !there.includes(member));
    if (left.length > 0 && missing.length > 0)
      throw new CheckFailed(`${place} lost ${left.join(', ')} before it got ${missing.join(', ')}`);
  }
}

function isSamePlace(one: Listener, other: Listener): boolean {
  return one.protocol === other.protocol && one.port === other.port;
}

function listMembers(listener: Listener | undefined): string[] {
  return listener?.members.map(formatMember) ?? [];
}

async function checkWhole(bench: Bench): Promise<void> {
  const { shapes } = bench;
  const steps = [
    { from: [], to: shapes.plain() },
    { from: [shapes.plain()], to: shapes.changed() },
  ];
  for (const { from, to } of steps) {
    await bench.atEachCall(async (at) => {
      if (from.length === 0) await bench.open().settleRemoval(to.id);
      for (const wanted of from) await bench.open().settle(wanted);
      const ended = bench.open({ endAt: at });
      await ended.settle(to);
      const owned = await bench.open().list();
      const difference = findDifference(owned, [to]);
      if (difference !== null && findDifference(owned, from) !== null)
        throw new CheckFailed(`after the crash, list has a part of the change: it ${difference}`);
      return judgeEnd(ended, at);
    });
  }
}

async function checkBeforeCall(bench: Bench): Promise<void> {
  const wanted = bench.shapes.plain();
  const { signal } = new AbortController();
  const methods: readonly (readonly [string, (subject: Subject) => Promise<unknown>])[] = [
    ['list', ({ driver }) => driver.list(signal)],
    ['plan', ({ driver }) => driver.plan(wanted, signal)],
    ['ensure', ({ driver }) => driver.ensure(wanted, signal)],
    ['remove', ({ driver }) => driver.remove(wanted.id, signal)],
    ['readState', ({ driver }) => driver.readState(signal)],
  ];
  for (const [name, call] of methods) {
    const answer = await call(bench.open({ endAt: 1 })).then(describeAnswer, (error: unknown) =>
      error instanceof ProcessEnd ? null : `rejects with something else: ${String(error)}`,
    );
    if (answer !== null) throw new CheckFailed(`${name} ${answer}`);
  }
}

function describeAnswer(answer: unknown): string {
  const isProgress = Object(answer) === answer && 'result' in Object(answer);
  return isProgress
    ? `answers ${describeProgress(answer as Parameters<typeof describeProgress>[0])}`
    : 'does not reject';
}
