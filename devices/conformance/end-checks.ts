import {
  type Check,
  type Subject,
  type Bench,
  CheckFailed,
  findDifference,
  ProcessEnd,
  describeProgress,
  demand,
} from './bench.ts';
import { type Balancer, type Listener, formatMember } from '../driver.ts';
import { testClusters, writeUid } from './shapes.ts';

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

/** More endpoints than most Services have, and few enough for a device with 50 ms a call. */
const manyMembers = 50;
const manyBalancers = 20;

/** How much, and how long, and whose. */
export const extentChecks: readonly Check[] = [
  { name: 'many-members', title: `${manyMembers} members`, needs: [], run: checkManyMembers },
  {
    name: 'many-balancers',
    title: `${manyBalancers} balancers, as many together as the driver takes`,
    needs: [],
    run: checkManyBalancers,
  },
  {
    name: 'longest-names',
    title: 'names of the maximum length, with different ends',
    needs: [],
    run: checkLongest,
  },
  { name: 'ipv6', title: 'addresses and members of IPv6', needs: ['ipv6', 'IPv6 addresses'], run: checkIpv6 },
  { name: 'udp', title: 'UDP, also at a port of TCP', needs: ['udp'], run: checkUdp },
  { name: 'same-name', title: 'a Service that is made again under its name', needs: [], run: checkSameName },
  { name: 'two-clusters', title: 'two clusters with the same Service', needs: [], run: checkTwoClusters },
  {
    name: 'foreign-objects',
    title: 'an object of another user stays as it is',
    needs: ['createForeign'],
    run: checkForeign,
  },
];

async function checkManyMembers(bench: Bench): Promise<void> {
  const { shapes } = bench;
  const count = Math.min(manyMembers, shapes.memberCount);
  const choose = (from: number, to: number): Balancer => ({
    ...shapes.plain(),
    listeners: [
      shapes.listener(
        0,
        Array.from({ length: to - from }, (_, at) => shapes.member(from + at)),
      ),
    ],
  });
  const half = Math.ceil(count / 2);
  for (const wanted of [choose(0, count), choose(0, half), choose(half - 1, count)]) {
    await bench.open().settle(wanted);
    await bench.expectSettled(wanted, `with ${wanted.listeners[0]?.members.length ?? 0} members`);
  }
}

async function checkManyBalancers(bench: Bench): Promise<void> {
  const { shapes } = bench;
  const count = Math.min(manyBalancers, shapes.anotherCount);
  const all = Array.from({ length: count }, (_, at) => shapes.another(at + 1));
  const subject = bench.open();
  await atOnce(bench, all, (wanted) => subject.settle(wanted));
  const fresh = bench.open();
  await fresh.expectOnly(all, `with ${count} balancers`);
  for (const wanted of all) await fresh.expectNoPlan(wanted, `with ${count} balancers`);
  const [left, gone] = [1, 0].map((rest) => all.filter((_, at) => at % 2 === rest));
  await atOnce(bench, gone ?? [], ({ id }) => subject.settleRemoval(id));
  await bench.open().expectOnly(left ?? [], 'after remove of every second one');
}

async function atOnce(
  { capabilities: { changesAtOnce = 1 } }: Bench,
  all: readonly Balancer[],
  act: (wanted: Balancer) => Promise<void>,
): Promise<void> {
  for (let at = 0; at < all.length; at += changesAtOnce)
    await Promise.all(all.slice(at, at + changesAtOnce).map(act));
}

async function checkLongest(bench: Bench): Promise<void> {
  const { shapes } = bench;
  const [, cluster] = testClusters;
  const long = { cluster, namespace: 'n'.repeat(63), name: 's'.repeat(63) };
  // The last character alone differs: a name that is cut short is the same for both.
  const one = { ...shapes.plain({ ...long, uid: writeUid(1) }) };
  const other = {
    ...one,
    id: { ...one.id, uid: writeUid(2) },
    addresses: [shapes.address(1)],
    listeners: [shapes.listener(0, [shapes.member(2)])],
  };
  const before = await bench.listObjects();
  const subject = bench.open({ cluster });
  await subject.settle(one);
  await subject.settle(other);
  const fresh = bench.open({ cluster });
  await fresh.expectOnly([one, other], 'with the longest names');
  await fresh.expectNoPlan(one, 'with the longest names');
  await fresh.expectNoPlan(other, 'with the longest names');
  await subject.settleRemoval(one.id);
  await bench.open({ cluster }).expectOnly([other], 'after remove of one');
  await subject.settleRemoval(other.id);
  await bench.expectObjects(before, 'after remove of both');
}

async function checkIpv6(bench: Bench): Promise<void> {
  const { shapes } = bench;
  const only = {
    ...shapes.plain(),
    addresses: [shapes.ipv6Address(0)],
    listeners: [shapes.listener(0, [shapes.ipv6Member(0), shapes.ipv6Member(1)])],
  };
  const subject = bench.open();
  await subject.settle(only);
  await bench.expectSettled(only, 'with IPv6');
  const fewer = { ...only, listeners: [shapes.listener(0, [shapes.ipv6Member(1)])] };
  await subject.settle(fewer);
  await bench.expectSettled(fewer, 'with a member less');
}

async function checkUdp(bench: Bench): Promise<void> {
  const { shapes } = bench;
  const udp = shapes.listener(0, [shapes.member(0), shapes.member(1)], 'udp');
  const tcp = shapes.listener(0, [shapes.member(0)]);
  const subject = bench.open();
  for (const listeners of [[udp], [udp, tcp], [tcp]]) {
    const wanted = { ...shapes.plain(), listeners };
    await subject.settle(wanted);
    await bench.expectSettled(wanted, `with ${listeners.map(({ protocol }) => protocol).join(' and ')}`);
  }
}

async function checkSameName(bench: Bench): Promise<void> {
  const { shapes } = bench;
  const former = shapes.plain();
  const next = {
    ...shapes.plain({ uid: writeUid(2) }),
    addresses: [shapes.address(1)],
    listeners: [shapes.listener(0, [shapes.member(2)])],
  };
  const subject = bench.open();
  await subject.settle(former);
  await subject.settle(next);
  await bench.open().expectOnly([former, next], 'with two of one name');
  await subject.settleRemoval(former.id);
  await bench.expectSettled(next, 'after remove of the former one');
}

async function checkTwoClusters(bench: Bench): Promise<void> {
  const { shapes } = bench;
  const [first, second] = testClusters.map((cluster, at) => ({
    ...shapes.plain({ cluster }),
    addresses: [shapes.address(at)],
  }));
  if (first === undefined || second === undefined) throw new TypeError('the test has too few clusters');
  await bench.open().settle(first);
  await bench.open({ cluster: second.id.cluster }).settle(second);
  const expectBoth = async (when: string, ones: readonly Balancer[], others: readonly Balancer[]) => {
    await bench.open().expectOnly(ones, `${when}, for the first cluster`);
    await bench.open({ cluster: second.id.cluster }).expectOnly(others, `${when}, for the second cluster`);
  };
  await expectBoth('after ensure of both', [first], [second]);
  const changed = { ...first, listeners: shapes.changed().listeners };
  await bench.open().settle(changed);
  await expectBoth('after a change of the first', [changed], [second]);
  await bench.open().settleRemoval(first.id);
  await expectBoth('after remove of the first', [], [second]);
}

async function checkForeign(bench: Bench): Promise<void> {
  const { shapes } = bench;
  const foreign = await demand(bench.actions.createForeign)();
  try {
    const before = await foreign.read();
    const expectSame = async (when: string) => {
      const after = await foreign.read();
      if (after !== before)
        throw new CheckFailed(`${when}, the object of another user was "${before}" and is "${after}"`);
    };
    await bench.open().expectOnly([], 'with an object of another user');
    await bench.open().settle(shapes.plain());
    await expectSame('after ensure');
    await bench.open().settle(shapes.changed());
    await bench.expectSettled(shapes.changed(), 'after a change');
    await expectSame('after a change');
    await bench.open({ endAt: 3 }).settle(shapes.plain());
    await bench.open().settleRemoval(shapes.id());
    await expectSame('after remove');
  } finally {
    await foreign.remove();
  }
}
