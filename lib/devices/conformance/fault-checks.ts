import { sleep } from '../../control/clock.ts';
import { type Balancer, type Progress } from '../driver.ts';
import { type Bench, demand } from './bench.ts';
import { type Check } from './check.ts';
import { CheckFailed } from './check-failed.ts';
import { findDifference } from './compare.ts';
import { describeProgress, type Subject } from './subject.ts';

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
    needs: ['silence'],
    run: checkSilence,
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

/** Whatever comes of it, but not on its way any more. */
async function ensureToEnd(bench: Bench, subject: Subject, wanted: Balancer): Promise<void> {
  for (;;) {
    const progress = await subject.ensure(wanted);
    if (progress.result !== 'running') return;
    await sleep(bench.clock, progress.retryInMs);
  }
}

async function checkSilence(bench: Bench): Promise<void> {
  const { shapes } = bench;
  await bench.open().settle(shapes.plain());
  const undo = await demand(bench.actions.silence)();
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
