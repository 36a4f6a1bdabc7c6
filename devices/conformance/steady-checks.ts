import {
  type Check,
  type Bench,
  CheckFailed,
  type Subject,
  describeChange,
  describeProgress,
  demand,
  quoteSome,
  subtract,
  toChecks,
  writingCall,
} from './bench.ts';
import { type Shapes, testClusters, writeUid } from './shapes.ts';
import { connectionChecks } from './connection-checks.ts';
import { faultChecks } from './fault-checks.ts';
import type { Balancer } from '../driver.ts';

/** All checks, in the order in which they run: what everything else needs comes first. */
export function listChecks(): readonly Check[] {
  return [...steadyChecks, ...changeChecks, ...extentChecks, ...connectionChecks, ...faultChecks];
}

/** CSI sanity has the same number, IdempotentCount. */
const repetitions = 10;

/** What holds while nothing happens to the device. */
const steadyChecks = toChecks({
  state: {
    title: 'each unit says its role, and one is active',
    run: async (bench) => {
      const { units } = await bench.open().readState();
      const roles = units.map(({ unit, role }) => `${unit} ${role}`).join(', ') || 'no unit';
      if (units.filter(({ role }) => role === 'active').length !== 1)
        throw new CheckFailed(`not one unit is active: ${roles}`);
      const { pair } = bench.capabilities;
      if (pair !== units.length > 1)
        throw new CheckFailed(`units: ${units.length}, and the capability pair is ${String(pair)}`);
    },
  },
  'ensure-list': {
    title: 'list has exactly what ensure was given',
    run: async (bench, shapes) => {
      await bench.open().expectOnly([], 'before');
      await bench.bring(shapes.plain(), 'after ensure');
    },
  },
  'ensure-again': {
    title: `ensure ${repetitions} times makes no second object and writes nothing, and plan is empty after each`,
    run: async (bench, shapes) => {
      const wanted = shapes.plain();
      await bench.open().settle(wanted);
      const before = await bench.listObjects();
      for (let time = 1; time <= repetitions; time += 1) {
        const subject = bench.open();
        expectDone(await subject.ensure(wanted), 'ensure of what is there');
        expectNoWrites(subject, 'ensure of what is there');
        await bench.expectSettled(wanted, `after ensure number ${time}`);
      }
      await bench.expectObjects(before, 'after all');
    },
  },
  'plan-writes-nothing': {
    title: 'plan names changes and makes none',
    run: async (bench, shapes) => {
      const empty = await bench.listObjects();
      await expectPlanOnly(bench, shapes.plain(), []);
      await bench.expectObjects(empty, 'after plan of a new balancer');
      await bench.open().settle(shapes.plain());
      const before = await bench.listObjects();
      await expectPlanOnly(bench, shapes.changed(), [shapes.plain()]);
      await bench.expectObjects(before, 'after plan of a change');
    },
  },
  remove: {
    title: 'remove leaves nothing, and other balancers stay',
    run: async (bench, shapes) => {
      const before = await bench.listObjects();
      for (const each of [shapes.plain(), shapes.another(1)]) await bench.open().settle(each);
      await bench.open().settleRemoval(shapes.id());
      await bench.expectSettled(shapes.another(1), 'after remove of the other');
      await bench.expectRemoval(shapes.another(1).id, before, 'after remove of both');
    },
  },
  'remove-unknown': {
    title: `remove of what is not there is done, ${repetitions} times`,
    run: async (bench, shapes) => {
      const before = await bench.listObjects();
      const subject = bench.open();
      for (let time = 1; time <= repetitions; time += 1) {
        const progress = await subject.remove(shapes.id({ name: 'never-there' }));
        expectDone(progress, `remove number ${time} of what is not there`);
      }
      await bench.expectObjects(before, 'after remove of what is not there');
    },
  },
  'concurrent-reads': {
    title: 'list and plan of another process work while ensure runs',
    run: checkConcurrency,
  },
});

function expectDone(progress: Awaited<ReturnType<Subject['ensure']>>, what: string): void {
  if (progress.result !== 'done') throw new CheckFailed(`${what} is ${describeProgress(progress)}`);
}

function expectNoWrites({ calls }: Subject, what: string): void {
  const writes = calls.filter((call) => writingCall.test(call));
  if (writes.length > 0) throw new CheckFailed(`${what} writes: ${quoteSome(writes)}`);
}

async function expectPlanOnly(bench: Bench, wanted: Balancer, there: readonly Balancer[]): Promise<void> {
  const subject = bench.open();
  const changes = await subject.plan(wanted);
  if (changes.length === 0) throw new CheckFailed('plan of a change is empty');
  expectNoWrites(subject, 'plan');
  await bench.open().expectOnly(there, 'after plan');
  const again = await bench.open().plan(wanted);
  const [second = [], first = []] = [again, changes].map((all) => all.map((one) => describeChange(one)));
  const difference = subtract(second, first);
  if (difference.length > 0)
    throw new CheckFailed(`plan has other changes the second time: ${quoteSome(difference)}`);
}

async function checkConcurrency(bench: Bench, shapes: Shapes): Promise<void> {
  await bench.open().settle(shapes.plain());
  const state = { isOver: false };
  const changing = bench.open().settle(shapes.changed());
  const ended = changing.finally(() => (state.isOver = true));
  // The first failure is reported: a rejection of the other must not end the process.
  ended.catch(() => undefined);
  const reader = bench.open();
  do {
    const owned = await reader.list();
    const names = owned.map(({ balancer: { id } }) => `${id.namespace}/${id.name}/${id.uid}`);
    if (new Set(names).size < names.length)
      throw new CheckFailed(`during ensure, list has a balancer twice: ${quoteSome(names)}`);
    await reader.plan(shapes.changed());
    // A driver that waits for nothing would keep the change, limits and Ctrl-C from their turn.
    await new Promise((resolve) => setImmediate(resolve));
  } while (!state.isOver);
  await ended;
  await bench.expectSettled(shapes.changed(), 'after ensure');
}

/** What people and controllers change of a balancer. */
const changeChecks = toChecks({
  'change-members': {
    title: 'members come and go',
    run: goThrough((shapes) => [
      shapes.plain(),
      ...[[1, 2], [3], [0, 1, 2, 3]].map((chosen) =>
        shapes.withMembers(...chosen.map((at) => shapes.member(at))),
      ),
    ]),
  },
  'change-member-port': {
    title: 'a member has another port at the same address',
    run: goThrough((shapes) => [
      shapes.withMembers(shapes.member(0)),
      shapes.withMembers(shapes.member(0, 1)),
      shapes.withMembers(shapes.member(0), shapes.member(0, 1)),
    ]),
  },
  'change-no-members': {
    title: 'a listener without members, from the beginning and later',
    run: goThrough((shapes) => [shapes.withMembers(), shapes.withMembers(shapes.member(0))]),
  },
  'change-listeners': {
    title: 'listeners come and go',
    run: goThrough((shapes) =>
      [[0], [0, 1, 2], [1], [2]].map((ports) => ({
        ...shapes.plain(),
        listeners: ports.map((port) => shapes.listener(port, [shapes.member(0)])),
      })),
    ),
  },
  'change-addresses': {
    title: 'addresses come and go',
    run: goThrough((shapes) =>
      [[0], [0, 1], [2], [2, 3, 0]].map((chosen) => ({
        ...shapes.plain(),
        addresses: chosen.map((at) => shapes.address(at)),
      })),
    ),
  },
  'change-method': {
    title: 'each method that the device has',
    needs: ['two methods'],
    run: goThrough((shapes) => shapes.methods.map((method) => ({ ...shapes.plain(), method }))),
  },
  'change-affinity': {
    title: 'affinity comes, gets another time, and goes',
    needs: ['affinity'],
    run: goThrough((shapes) => [null, 60, 10_800].map((affinityS) => ({ ...shapes.plain(), affinityS }))),
  },
  'change-weights': {
    title: 'weights from 1 to 256',
    needs: ['weights'],
    run: goThrough((shapes) => weigh(shapes, ['1 1', '2 3', '256 1', '7 256'])),
  },
  'change-weight-zero': {
    title: 'a member with weight 0 stays listed, and gets its share again',
    needs: ['drain'],
    run: goThrough((shapes) => weigh(shapes, ['1 1', '0 1', '1 0', '0 0'])),
  },
});

/** Two members with each of these pairs of weights. */
function weigh(shapes: Shapes, pairs: readonly string[]): Balancer[] {
  return pairs.map((pair) =>
    shapes.withMembers(...pair.split(' ').map((weight, at) => shapes.member(at, 0, Number(weight)))),
  );
}

/** Takes the balancer through these states, one after the other, and back to the first. */
function goThrough(toStates: (shapes: Shapes) => readonly Balancer[]): Check['run'] {
  return async (bench, shapes) => {
    const subject = bench.open();
    const neighbour = shapes.another(1);
    await subject.settle(neighbour);
    const states = toStates(shapes);
    for (const [at, wanted] of [...states, ...states.slice(0, 1)].entries()) {
      if (at > 0 && (await subject.plan(wanted)).length === 0)
        throw new CheckFailed(`plan of change ${at} is empty`);
      await subject.settle(wanted);
      await bench.expectSettled(wanted, at === 0 ? 'at first' : `after change ${at}`, [neighbour]);
    }
  };
}

/** More endpoints than most Services have, and few enough for a device with 50 ms a call. */
const manyMembers = 50;
const manyBalancers = 20;

/** How much, and how long, and whose. */
const extentChecks = toChecks({
  'many-members': {
    title: `${manyMembers} members`,
    run: async (bench, shapes) => {
      const { memberIpv4, memberPorts } = shapes.sites;
      const count = Math.min(manyMembers, Math.floor(memberPorts.length / 2) * memberIpv4.length);
      const all = Array.from({ length: count }, (_, at) => shapes.member(at));
      const half = Math.ceil(count / 2);
      for (const members of [all, all.slice(0, half), all.slice(half - 1)])
        await bench.bring(shapes.withMembers(...members), `with ${members.length} members`);
    },
  },
  'many-balancers': {
    title: `${manyBalancers} balancers, as many together as the driver takes`,
    run: checkManyBalancers,
  },
  'longest-names': {
    title: 'names of the maximum length, with different ends',
    run: async (bench, shapes) => {
      const [, cluster] = testClusters;
      const id = { cluster, namespace: 'n'.repeat(63), name: 's'.repeat(63) };
      // The last character alone differs: a name that is cut short is the same for both.
      const [one, other] = [shapes.plain({ ...id, uid: writeUid(1) }), shapes.successor(id)];
      const before = await bench.listObjects();
      const subject = bench.open({ cluster });
      for (const each of [one, other]) await subject.settle(each);
      const fresh = bench.open({ cluster });
      await fresh.expectOnly([one, other], 'with the longest names');
      for (const each of [one, other]) await fresh.expectNoPlan(each, 'with the longest names');
      await subject.settleRemoval(one.id);
      await bench.open({ cluster }).expectOnly([other], 'after remove of one');
      await subject.settleRemoval(other.id);
      await bench.expectObjects(before, 'after remove of both');
    },
  },
  ipv6: {
    title: 'addresses and members of IPv6',
    needs: ['ipv6', 'IPv6 addresses'],
    run: async (bench, shapes) => {
      const [one, other] = [shapes.ipv6Member(0), shapes.ipv6Member(1)];
      const addresses = [shapes.ipv6Address(0)];
      await bench.bring({ ...shapes.withMembers(one, other), addresses }, 'with IPv6');
      await bench.bring({ ...shapes.withMembers(other), addresses }, 'with a member less');
    },
  },
  udp: {
    title: 'UDP, also at a port of TCP',
    needs: ['udp'],
    run: async (bench, shapes) => {
      const udp = shapes.listener(0, [shapes.member(0), shapes.member(1)], 'udp');
      const tcp = shapes.listener(0, [shapes.member(0)]);
      for (const listeners of [[udp], [udp, tcp], [tcp]]) {
        const when = `with ${listeners.map(({ protocol }) => protocol).join(' and ')}`;
        await bench.bring({ ...shapes.plain(), listeners }, when);
      }
    },
  },
  'same-name': {
    title: 'a Service that is made again under its name',
    run: async (bench, shapes) => {
      const [former, next] = [shapes.plain(), shapes.successor()];
      const subject = bench.open();
      for (const each of [former, next]) await subject.settle(each);
      await bench.open().expectOnly([former, next], 'with two of one name');
      await subject.settleRemoval(former.id);
      await bench.expectSettled(next, 'after remove of the former one');
    },
  },
  'other-process': {
    title: 'a process sees what another one changes and removes',
    run: async (bench, shapes) => {
      const subject = bench.open();
      await subject.settle(shapes.plain());
      await bench.open().settle(shapes.changed());
      await subject.expectOnly([shapes.changed()], 'after a change by another process');
      await subject.expectNoPlan(shapes.changed(), 'after a change by another process');
      await bench.open().settleRemoval(shapes.id());
      await subject.expectOnly([], 'after a removal by another process');
      await subject.settle(shapes.plain());
      await bench.expectSettled(shapes.plain(), 'after ensure of what another process removed');
    },
  },
  'two-clusters': { title: 'two clusters with the same Service', run: checkTwoClusters },
  'same-cluster-name': {
    title: 'two clusters of one name leave what the other one has, and take over what has no identity',
    needs: ['identity'],
    run: checkSameName,
  },
  'foreign-objects': {
    title: 'an object of another user stays as it is',
    needs: ['createForeign'],
    run: checkForeign,
  },
});

async function checkManyBalancers(bench: Bench, shapes: Shapes): Promise<void> {
  // Of the first four addresses none is another's.
  const count = Math.min(manyBalancers, shapes.sites.ipv4.length - 4);
  const all = Array.from({ length: count }, (_, at) => shapes.another(at + 1));
  const subject = bench.open();
  await atOnce(bench, all, (wanted) => subject.settle(wanted));
  const fresh = bench.open();
  await fresh.expectOnly(all, `with ${count} balancers`);
  for (const wanted of all) await fresh.expectNoPlan(wanted, `with ${count} balancers`);
  const [left = [], gone = []] = [1, 0].map((rest) => all.filter((_, at) => at % 2 === rest));
  await atOnce(bench, gone, ({ id }) => subject.settleRemoval(id));
  await bench.open().expectOnly(left, 'after remove of every second one');
}

async function atOnce(bench: Bench, all: readonly Balancer[], act: (wanted: Balancer) => Promise<void>) {
  const { changesAtOnce = 1 } = bench.capabilities;
  for (let at = 0; at < all.length; at += changesAtOnce)
    await Promise.all(all.slice(at, at + changesAtOnce).map(act));
}

async function checkTwoClusters(bench: Bench, shapes: Shapes): Promise<void> {
  const [one, cluster] = testClusters;
  const first = shapes.plain({ cluster: one });
  const second = { ...shapes.plain({ cluster }), addresses: [shapes.address(1)] };
  await bench.open().settle(first);
  await bench.open({ cluster }).settle(second);
  const expectBoth = async (when: string, ones: readonly Balancer[]) => {
    await bench.open().expectOnly(ones, `${when}, for the first cluster`);
    await bench.open({ cluster }).expectOnly([second], `${when}, for the second cluster`);
  };
  await expectBoth('after ensure of both', [first]);
  const changed = { ...first, listeners: shapes.changed().listeners };
  await bench.open().settle(changed);
  await expectBoth('after a change of the first', [changed]);
  await bench.open().settleRemoval(first.id);
  await expectBoth('after remove of the first', []);
}

async function checkSameName(bench: Bench, shapes: Shapes): Promise<void> {
  const [identity, otherIdentity] = ['1a2b3c4d', '99999999'];
  const [mine, theirs] = [shapes.plain(), shapes.successor()];
  const open = () => bench.open({ identity });
  const openOther = () => bench.open({ identity: otherIdentity });
  await bench.open().settle(mine);
  await open().expectOnly([mine], 'without an identity');
  await open().settle(mine);
  await openOther().settle(theirs);
  const expectBoth = async (when: string) => {
    await open().expectOnly([mine], `${when}, for the first cluster`, [theirs]);
    await openOther().expectOnly([theirs], `${when}, for the second cluster`, [mine]);
  };
  await expectBoth('after ensure of both');
  expectDone(await open().remove(theirs.id), "remove of the other cluster's");
  const changed = { ...theirs, listeners: shapes.changed().listeners };
  if ((await open().ensure(changed)).result === 'done')
    throw new CheckFailed("ensure of the other cluster's is done");
  await expectBoth("after what was meant for the other cluster's");
  await openOther().settleRemoval(theirs.id);
  await open().expectOnly([mine], 'after remove of the second');
}

async function checkForeign(bench: Bench, shapes: Shapes): Promise<void> {
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
    await bench.bring(shapes.changed(), 'after a change');
    await expectSame('after a change');
    await bench.open({ endAt: 3 }).settle(shapes.plain());
    await bench.open().settleRemoval(shapes.id());
    await expectSame('after remove');
  } finally {
    await foreign.remove();
  }
}
