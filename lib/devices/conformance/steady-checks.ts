import { type Owned } from '../driver.ts';
import { type Bench } from './bench.ts';
import { type Check } from './check.ts';
import { CheckFailed } from './check-failed.ts';
import { quoteSome, subtract } from './compare.ts';
import { describeChange, describeProgress, type Subject } from './subject.ts';

/** CSI sanity has the same number, IdempotentCount. */
const repetitions = 10;

/** What holds while nothing happens to the device. */
export const steadyChecks: readonly Check[] = [
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
  // Whatever comes first is told: a rejection of the other must not end the process.
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
