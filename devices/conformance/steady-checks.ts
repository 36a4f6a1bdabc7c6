import {
  type Check,
  type Bench,
  CheckFailed,
  describeProgress,
  type Subject,
  quoteSome,
  subtract,
  describeChange,
  type Need,
} from './bench.ts';
import { extentChecks, endChecks } from './end-checks.ts';
import { stopChecks, faultChecks } from './fault-checks.ts';
import type { Owned, Balancer } from '../driver.ts';
import type { Shapes } from './shapes.ts';

/** All checks, in the order in which they run: what everything else needs comes first. */
export function listChecks(): readonly Check[] {
  return [...steadyChecks, ...changeChecks, ...extentChecks, ...endChecks, ...stopChecks, ...faultChecks];
}

/** CSI sanity has the same number, IdempotentCount. */
const repetitions = 10;

/** What holds while nothing happens to the device. */
const steadyChecks: readonly Check[] = [
  { name: 'state', title: 'each unit says its role, and one is active', needs: [], run: checkState },
  { name: 'ensure-list', title: 'list has exactly what ensure was given', needs: [], run: checkList },
  {
    name: 'ensure-again',
    title: `ensure ${repetitions} times makes no second object and writes nothing, and plan is empty after each`,
    needs: [],
    run: checkAgain,
  },
  { name: 'plan-writes-nothing', title: 'plan names changes and makes none', needs: [], run: checkPlan },
  { name: 'remove', title: 'remove leaves nothing, and other balancers stay', needs: [], run: checkRemove },
  {
    name: 'remove-unknown',
    title: `remove of what is not there is done, ${repetitions} times`,
    needs: [],
    run: checkUnknown,
  },
  {
    name: 'concurrent-reads',
    title: 'list and plan of another process work while ensure runs',
    needs: [],
    run: checkConcurrency,
  },
];

async function checkState(bench: Bench): Promise<void> {
  const { units } = await bench.open().readState();
  const active = units.filter(({ role }) => role === 'active');
  if (active.length !== 1)
    throw new CheckFailed(
      `not one unit is active: ${units.map(({ unit, role }) => `${unit} ${role}`).join(', ') || 'no unit'}`,
    );
  if (bench.capabilities.pair !== units.length > 1)
    throw new CheckFailed(
      `units: ${units.length}, and the capability pair is ${String(bench.capabilities.pair)}`,
    );
}

async function checkList(bench: Bench): Promise<void> {
  const subject = bench.open();
  await subject.expectOnly([], 'before');
  await subject.settle(bench.shapes.plain());
  await bench.expectSettled(bench.shapes.plain(), 'after ensure');
}

async function checkAgain(bench: Bench): Promise<void> {
  const wanted = bench.shapes.plain();
  await bench.open().settle(wanted);
  const before = await bench.listObjects();
  for (let time = 1; time <= repetitions; time += 1) {
    const subject = bench.open();
    const progress = await subject.ensure(wanted);
    if (progress.result !== 'done')
      throw new CheckFailed(`ensure of what is there is ${describeProgress(progress)}`);
    expectNoWrites(subject, 'ensure of what is there');
    await bench.expectSettled(wanted, `after ensure number ${time}`);
  }
  await bench.expectObjects(before, 'after all');
}

/** By the names that drivers give their calls: docs/drivers.md. A driver with other names is not judged by them. */
const writingCall = /^(?:POST|PUT|PATCH|DELETE|write)\b/i;

function expectNoWrites({ calls }: Subject, what: string): void {
  const writes = calls.filter((call) => writingCall.test(call));
  if (writes.length > 0) throw new CheckFailed(`${what} writes: ${quoteSome(writes)}`);
}

async function checkPlan(bench: Bench): Promise<void> {
  const { shapes } = bench;
  const empty = await bench.listObjects();
  await expectPlanOnly(bench, shapes.plain(), []);
  await bench.expectObjects(empty, 'after plan of a new balancer');
  await bench.open().settle(shapes.plain());
  const before = await bench.listObjects();
  await expectPlanOnly(bench, shapes.changed(), [shapes.plain()]);
  await bench.expectObjects(before, 'after plan of a change');
}

async function expectPlanOnly(
  bench: Bench,
  wanted: Parameters<Subject['plan']>[0],
  there: Parameters<Subject['expectOnly']>[0],
): Promise<void> {
  const subject = bench.open();
  const changes = await subject.plan(wanted);
  if (changes.length === 0) throw new CheckFailed('plan of a change is empty');
  expectNoWrites(subject, 'plan');
  await bench.open().expectOnly(there, 'after plan');
  const difference = subtract(
    (await bench.open().plan(wanted)).map(describeChange),
    changes.map(describeChange),
  );
  if (difference.length > 0)
    throw new CheckFailed(`plan has other changes the second time: ${quoteSome(difference)}`);
}

async function checkRemove(bench: Bench): Promise<void> {
  const { shapes } = bench;
  const before = await bench.listObjects();
  const subject = bench.open();
  await subject.settle(shapes.plain());
  await subject.settle(shapes.another(1));
  await bench.open().settleRemoval(shapes.id());
  await bench.expectSettled(shapes.another(1), 'after remove of the other');
  await bench.open().settleRemoval(shapes.another(1).id);
  await bench.open().expectOnly([], 'after remove of both');
  await bench.expectObjects(before, 'after remove of both');
}

async function checkUnknown(bench: Bench): Promise<void> {
  const before = await bench.listObjects();
  const subject = bench.open();
  for (let time = 1; time <= repetitions; time += 1) {
    const progress = await subject.remove(bench.shapes.id({ name: 'never-there' }));
    if (progress.result !== 'done')
      throw new CheckFailed(`remove number ${time} of what is not there is ${describeProgress(progress)}`);
  }
  await bench.expectObjects(before, 'after remove of what is not there');
}

async function checkConcurrency(bench: Bench): Promise<void> {
  const { shapes } = bench;
  await bench.open().settle(shapes.plain());
  const state = { isOver: false };
  const changing = bench
    .open()
    .settle(shapes.changed())
    .finally(() => {
      state.isOver = true;
    });
  // The first failure is reported: a rejection of the other must not end the process.
  changing.catch(() => undefined);
  const reader = bench.open();
  do {
    expectOneName(await reader.list());
    await reader.plan(shapes.changed());
  } while (!state.isOver);
  await changing;
  await bench.expectSettled(shapes.changed(), 'after ensure');
}

function expectOneName(owned: readonly Owned[]): void {
  const names = owned.map(({ balancer: { id } }) => `${id.namespace}/${id.name}/${id.uid}`);
  if (new Set(names).size < names.length)
    throw new CheckFailed(`during ensure, list has a balancer twice: ${quoteSome(names)}`);
}

interface ChangeCase {
  readonly name: string;
  readonly title: string;
  readonly needs?: readonly Need[];
  /** The states that the balancer goes through, one after the other, and back to the first. */
  readonly states: (shapes: Shapes) => readonly Balancer[];
}

const cases: readonly ChangeCase[] = [
  {
    name: 'change-members',
    title: 'members come and go',
    states: (shapes) => [
      shapes.plain(),
      withMembers(shapes, [shapes.member(1), shapes.member(2)]),
      withMembers(shapes, [shapes.member(3)]),
      withMembers(shapes, [shapes.member(0), shapes.member(1), shapes.member(2), shapes.member(3)]),
    ],
  },
  {
    name: 'change-member-port',
    title: 'a member has another port at the same address',
    states: (shapes) => [
      withMembers(shapes, [shapes.member(0)]),
      withMembers(shapes, [shapes.member(0, 1)]),
      withMembers(shapes, [shapes.member(0), shapes.member(0, 1)]),
    ],
  },
  {
    name: 'change-no-members',
    title: 'a listener without members, from the beginning and later',
    states: (shapes) => [withMembers(shapes, []), withMembers(shapes, [shapes.member(0)])],
  },
  {
    name: 'change-listeners',
    title: 'listeners come and go',
    states: (shapes) => {
      const ports = [0, 1, 2].map((port) => shapes.listener(port, [shapes.member(0)]));
      const choose = (...chosen: readonly number[]) => ({
        ...shapes.plain(),
        listeners: ports.filter((_, at) => chosen.includes(at)),
      });
      return [choose(0), choose(0, 1, 2), choose(1), choose(2)];
    },
  },
  {
    name: 'change-addresses',
    title: 'addresses come and go',
    states: (shapes) =>
      [[0], [0, 1], [2], [2, 3, 0]].map((chosen) => ({
        ...shapes.plain(),
        addresses: chosen.map((at) => shapes.address(at)),
      })),
  },
  {
    name: 'change-method',
    title: 'each method that the device has',
    needs: ['two methods'],
    states: (shapes) => shapes.methods.map((method) => ({ ...shapes.plain(), method })),
  },
  {
    name: 'change-affinity',
    title: 'affinity comes, gets another time, and goes',
    needs: ['affinity'],
    states: (shapes) => [null, 60, 10_800].map((affinityS) => ({ ...shapes.plain(), affinityS })),
  },
  {
    name: 'change-weights',
    title: 'weights from 1 to 256',
    needs: ['weights'],
    states: (shapes) =>
      [
        [1, 1],
        [2, 3],
        [256, 1],
        [7, 256],
      ].map(([first, second]) =>
        withMembers(shapes, [shapes.member(0, 0, first), shapes.member(1, 0, second)]),
      ),
  },
  {
    name: 'change-weight-zero',
    title: 'a member with weight 0 stays listed, and gets its share again',
    needs: ['drain'],
    states: (shapes) =>
      [
        [1, 1],
        [0, 1],
        [1, 0],
        [0, 0],
      ].map(([first, second]) =>
        withMembers(shapes, [shapes.member(0, 0, first), shapes.member(1, 0, second)]),
      ),
  },
];

/** What people and controllers change of a balancer. */
const changeChecks: readonly Check[] = cases.map(({ name, title, needs = [], states }) => ({
  name,
  title,
  needs,
  run: (bench) => goThrough(bench, states(bench.shapes)),
}));

function withMembers(shapes: Shapes, members: Balancer['listeners'][number]['members']): Balancer {
  return { ...shapes.plain(), listeners: [shapes.listener(0, members)] };
}

async function goThrough(bench: Bench, states: readonly Balancer[]): Promise<void> {
  const subject = bench.open();
  const neighbour = bench.shapes.another(1);
  await subject.settle(neighbour);
  const round = [...states, ...states.slice(0, 1)];
  for (const [at, wanted] of round.entries()) {
    if (at > 0 && (await subject.plan(wanted)).length === 0)
      throw new CheckFailed(`plan of change ${at} is empty`);
    await subject.settle(wanted);
    const when = at === 0 ? 'at first' : `after change ${at}`;
    const fresh = bench.open();
    await fresh.expectOnly([wanted, neighbour], when);
    await fresh.expectNoPlan(wanted, when);
  }
}
