import {
  type Check,
  type Bench,
  type Subject,
  demand,
  CheckFailed,
  findDifference,
  describeProgress,
  quoteSome,
} from './bench.ts';
import { sleep } from '../../lib/clock.ts';
import { type Balancer, type Progress, formatMember } from '../driver.ts';
import type { Session } from './shapes.ts';

/** What holds when something happens to the device in the middle of a change. */
export const faultChecks: readonly Check[] = [
  {
    name: 'failover',
    title: 'the units change their roles before each call of a change',
    needs: ['pair', 'switchRole'],
    run: checkFailover,
  },
  {
    name: 'failover-remove',
    title: 'the units change their roles before each call of remove',
    needs: ['pair', 'switchRole'],
    run: checkFailoverRemove,
  },
  {
    name: 'restart',
    title: 'the active unit restarts before each call of a change',
    needs: ['restart'],
    run: checkRestart,
  },
  { name: 'forget', title: 'a device that lost all gets all again', needs: ['forget'], run: checkForget },
  {
    name: 'lost-answer',
    title: 'the answer of each call of a change gets lost',
    needs: ['loseNextAnswer'],
    run: checkLostAnswers,
  },
  {
    name: 'refusal',
    title: 'a device that refuses changes from each call on keeps what serves',
    needs: ['refuseWrites'],
    run: checkRefusal,
  },
  {
    name: 'unreachable',
    title: 'while no unit answers, reads reject with unreachable, and ensure and remove fail',
    needs: ['disconnect'],
    run: checkUnresponsive,
  },
  {
    name: 'pending-changes',
    title: 'changes of another user that wait are shown, and neither applied nor lost',
    needs: ['pendingChanges', 'changePending'],
    run: checkPending,
  },
];

/** Lets something happen before each call of a change, in turn, and expects the change to be done in the end. */
async function disturbChange(bench: Bench, happen: () => Promise<void>): Promise<void> {
  const { shapes } = bench;
  await bench.atEachCall(async (at) => {
    await bench.open().settle(shapes.plain());
    const subject = openDisturbed(bench, at, happen);
    await subject.settle(shapes.changed());
    await bench.expectSettled(shapes.changed(), 'after all');
    return subject.calls.length < at ? 'not reached' : 'happened';
  });
}

function openDisturbed(bench: Bench, at: number, happen: () => Promise<void>): Subject {
  return bench.open({
    beforeCall: async (call) => {
      if (call === at) await happen();
    },
  });
}

async function checkFailover(bench: Bench): Promise<void> {
  const { shapes } = bench;
  const switchRole = demand(bench.actions.switchRole);
  await disturbChange(bench, switchRole);
  await waitForSync(bench);
  await switchRole();
  const subject = bench.open();
  await subject.settle(shapes.changed());
  await bench.expectSettled(shapes.changed(), 'after one more change of roles');
}

/** As long as a pair of devices may take; one that cannot tell is taken as it is. */
const syncTries = 60;

async function waitForSync(bench: Bench): Promise<void> {
  const subject = bench.open();
  for (let attempt = 0; attempt < syncTries; attempt += 1) {
    const { units } = await subject.readState();
    if (units.every(({ isInSync }) => isInSync !== false)) return;
    await sleep(bench.clock, 1000);
  }
  throw new CheckFailed(`the units are not in sync after ${syncTries} s`);
}

async function checkFailoverRemove(bench: Bench): Promise<void> {
  const wanted = bench.shapes.plain();
  const switchRole = demand(bench.actions.switchRole);
  await bench.atEachCall(async (at) => {
    await bench.open().settle(wanted);
    const subject = openDisturbed(bench, at, switchRole);
    await subject.settleRemoval(wanted.id);
    await bench.open().expectOnly([], 'after remove');
    return subject.calls.length < at ? 'not reached' : 'happened';
  });
}

async function checkRestart(bench: Bench): Promise<void> {
  const { shapes } = bench;
  const restart = demand(bench.actions.restart);
  await bench.open().settle(shapes.plain());
  await restart();
  await bench.open().expectOnly([shapes.plain()], 'after a restart');
  await disturbChange(bench, restart);
  await restart();
  await bench.open().expectOnly([shapes.changed()], 'after the last restart');
}

async function checkForget(bench: Bench): Promise<void> {
  const wanted = bench.shapes.plain();
  await bench.open().settle(wanted);
  await demand(bench.actions.forget)();
  const subject = bench.open();
  await subject.expectOnly([], 'after the loss');
  if ((await subject.plan(wanted)).length === 0) throw new CheckFailed('after the loss, plan is empty');
  await subject.settle(wanted);
  await bench.expectSettled(wanted, 'after ensure');
}

async function checkLostAnswers(bench: Bench): Promise<void> {
  await disturbChange(bench, demand(bench.actions.loseNextAnswer));
}

async function checkRefusal(bench: Bench): Promise<void> {
  const { shapes, capabilities } = bench;
  const refuseWrites = demand(bench.actions.refuseWrites);
  await bench.atEachCall(async (at) => {
    await bench.open().settle(shapes.plain());
    let undo = () => Promise.resolve();
    const subject = openDisturbed(bench, at, async () => {
      undo = await refuseWrites();
    });
    try {
      await ensureToEnd(bench, subject, shapes.changed());
      const owned = await bench.open().list();
      const isWhole = [shapes.plain(), shapes.changed()].some((one) => findDifference(owned, [one]) === null);
      const serving = owned.flatMap(({ balancer }) =>
        balancer.listeners.map(({ members }) => members.length),
      );
      if (capabilities.atomicCommit && !isWhole)
        throw new CheckFailed('while it refuses, list has a part of the change');
      if (serving.length === 0 || serving.includes(0))
        throw new CheckFailed('while it refuses, list has a listener without members, or none');
    } finally {
      await undo();
    }
    await bench.open().settle(shapes.changed());
    await bench.expectSettled(shapes.changed(), 'after the refusals');
    return subject.calls.length < at ? 'not reached' : 'happened';
  });
}

/** Whatever comes of it, but not `running` any more. */
async function ensureToEnd(bench: Bench, subject: Subject, wanted: Balancer): Promise<void> {
  for (;;) {
    const progress = await subject.ensure(wanted);
    if (progress.result !== 'running') return;
    await sleep(bench.clock, progress.retryInMs);
  }
}

async function checkUnresponsive(bench: Bench): Promise<void> {
  const { shapes } = bench;
  await bench.open().settle(shapes.plain());
  const undo = await demand(bench.actions.disconnect)();
  try {
    const subject = bench.open();
    const { signal } = new AbortController();
    await expectUnreachable('list', subject.driver.list(signal));
    await expectUnreachable('plan', subject.driver.plan(shapes.changed(), signal));
    expectFailed('ensure', await subject.ensure(shapes.changed()));
    expectFailed('remove', await subject.remove(shapes.id()));
  } finally {
    await undo();
  }
  await bench.expectSettled(shapes.plain(), 'when units answer again');
}

/** By its name: drivers from outside of vipnat have a class of their own. */
async function expectUnreachable(what: string, call: Promise<unknown>): Promise<void> {
  const found = await call.then(
    () => 'does not reject',
    (error: unknown) => {
      const { name, kind } = Object(error) as { readonly name?: unknown; readonly kind?: unknown };
      return name === 'DeviceError' && kind === 'unreachable' ? null : `rejects with ${String(error)}`;
    },
  );
  if (found !== null) throw new CheckFailed(`${what} ${found} instead of a DeviceError unreachable`);
}

function expectFailed(what: string, progress: Progress): void {
  if (progress.result !== 'failed')
    throw new CheckFailed(`${what} is ${describeProgress(progress)} instead of failed`);
}

async function checkPending(bench: Bench): Promise<void> {
  const { shapes } = bench;
  const pending = await demand(bench.actions.changePending)();
  try {
    const { foreignChanges } = await bench.open().readState();
    if (foreignChanges.length === 0) throw new CheckFailed('readState shows no foreign changes');
    const progress = await bench.open().ensure(shapes.plain());
    if (progress.result === 'done') throw new CheckFailed('ensure is done while foreign changes wait');
    await bench.open().expectOnly([], 'while foreign changes wait');
    if (!(await pending.isPending())) throw new CheckFailed('the foreign changes no longer wait');
  } finally {
    await pending.revert();
  }
  await bench.open().settle(shapes.plain());
  await bench.expectSettled(shapes.plain(), 'without foreign changes');
}

/** What holds when a caller, or a member, is asked to stop. */
export const stopChecks: readonly Check[] = [
  {
    name: 'abort',
    title: 'ensure ends soon after its signal, before each call, and another one finishes it',
    needs: [],
    run: checkAbort,
  },
  {
    name: 'abort-waiting',
    title: 'ensure ends soon after its signal while a unit does not answer',
    needs: ['holdAnswers'],
    run: checkHeld,
  },
  {
    name: 'drain',
    title: 'a member with weight 0 keeps its open connection, which is counted, until it ends',
    needs: ['drain', 'sessions', 'openSession'],
    run: checkDrain,
  },
];

/** Enough to give up a lock or a transaction. */
const maxLateCalls = 3;

/** The time limit of a request, and not of a whole change. */
const soonMs = 30_000;

async function checkAbort(bench: Bench): Promise<void> {
  const { shapes } = bench;
  await bench.atEachCall(async (at) => {
    await bench.open().settle(shapes.plain());
    const controller = new AbortController();
    const subject = bench.open({
      beforeCall: (call) => {
        if (call === at) controller.abort();
      },
    });
    // It may reject then, or say how far it came.
    await subject.ensure(shapes.changed(), controller.signal).catch(() => null);
    const late = subject.calls.slice(at);
    if (controller.signal.aborted && late.length > maxLateCalls)
      throw new CheckFailed(`ensure makes ${late.length} more calls after its signal: ${quoteSome(late)}`);
    await bench.open().settle(shapes.changed());
    await bench.expectSettled(shapes.changed(), 'after another ensure');
    return controller.signal.aborted ? 'happened' : 'not reached';
  });
}

async function checkHeld(bench: Bench): Promise<void> {
  const { shapes, clock } = bench;
  await bench.open().settle(shapes.plain());
  const undo = await demand(bench.actions.holdAnswers)();
  try {
    const controller = new AbortController();
    const ensured = bench
      .open()
      .ensure(shapes.changed(), controller.signal)
      .catch(() => null);
    await sleep(clock, 1000);
    controller.abort();
    const end = await Promise.race([ensured, sleep(clock, soonMs).then((): 'late' => 'late')]);
    if (end === 'late') throw new CheckFailed(`ensure has not ended ${soonMs / 1000} s after its signal`);
  } finally {
    await undo();
  }
  await bench.open().settle(shapes.changed());
  await bench.expectSettled(shapes.changed(), 'after another ensure');
}

/** How long a device may take to count a connection that came or went. */
const countTries = 30;

async function checkDrain(bench: Bench): Promise<void> {
  const { shapes } = bench;
  const subject = bench.open();
  const members = [shapes.member(0), shapes.member(1)];
  const plain = { ...shapes.plain(), listeners: [shapes.listener(0, members)] };
  await subject.settle(plain);
  const session = await demand(bench.actions.openSession)(plain);
  try {
    const name = formatMember(session.member);
    await expectSessions(bench, name, (count) => count > 0);
    const drained = members.map((one) => (formatMember(one) === name ? { ...one, weight: 0 } : one));
    await subject.settle({ ...plain, listeners: [shapes.listener(0, drained)] });
    await expectOpen(session, 'with weight 0');
    await expectSessions(bench, name, (count) => count > 0);
    await session.close();
    await expectSessions(bench, name, (count) => count === 0);
    const left = members.filter((one) => formatMember(one) !== name);
    const last = { ...plain, listeners: [shapes.listener(0, left)] };
    await subject.settle(last);
    await bench.expectSettled(last, 'after the drain');
  } finally {
    await session.close();
  }
}

async function expectOpen(session: Session, when: string): Promise<void> {
  if (!(await session.isOpen())) throw new CheckFailed(`${when}, the open connection is gone`);
}

async function expectSessions(
  bench: Bench,
  name: string,
  isRight: (count: number) => boolean,
): Promise<void> {
  let counted: number | undefined;
  for (let attempt = 0; attempt < countTries; attempt += 1) {
    const [owned] = await bench.open().list();
    counted = owned?.memberToSessions?.get(name);
    if (counted !== undefined && isRight(counted)) return;
    await sleep(bench.clock, 1000);
  }
  throw new CheckFailed(`list counts ${counted ?? 'no'} open connections of ${name} after ${countTries} s`);
}
