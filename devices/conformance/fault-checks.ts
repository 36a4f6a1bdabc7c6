import {
  type Bench,
  CheckFailed,
  ProcessEnd,
  type Subject,
  demand,
  describeProgress,
  findDifference,
  quoteSome,
  toChecks,
} from './bench.ts';
import type { Shapes } from './shapes.ts';
import { sleep } from '../../lib/clock.ts';
import { type Balancer, type Listener, type Progress, formatMember } from '../driver.ts';

/** What holds when the driver's process ends between any two calls, when it is asked to stop, and when something happens to the device. */
export const faultChecks = toChecks({
  'crash-create': {
    title: 'a crash before each call of a creation: the next process finishes it, and can remove it whole',
    run: async (bench, shapes) => {
      const wanted = shapes.plain();
      const before = await bench.listObjects();
      await bench.atEachCall(async (at) => {
        const ended = bench.open({ endAt: at });
        await ended.settle(wanted);
        await bench.bring(wanted, 'after the next process');
        await bench.expectRemoval(wanted.id, before, 'after remove');
        // Once more: the next process finds only that the Service is gone.
        await bench.open({ endAt: at }).settle(wanted);
        await bench.expectRemoval(wanted.id, before, 'after remove');
        return ended;
      });
    },
  },
  'crash-change': {
    title: 'a crash before each call of a change: the next process finishes it',
    run: async (bench, shapes) => {
      await bench.open().settle(shapes.plain());
      const before = await bench.listObjects();
      await bench.atEachCall(async (at) => {
        const ended = bench.open({ endAt: at });
        await ended.settle(shapes.changed());
        await bench.bring(shapes.changed(), 'after the next process');
        await bench.bring(shapes.plain(), 'after the change back');
        await bench.expectObjects(before, 'after the change back');
        return ended;
      });
    },
  },
  'crash-remove': {
    title: 'a crash before each call of remove: the next process leaves nothing',
    run: async (bench, shapes) => {
      const wanted = shapes.plain();
      const before = await bench.listObjects();
      await bench.atEachCall(async (at) => {
        await bench.open().settle(wanted);
        const ended = bench.open({ endAt: at });
        await ended.settleRemoval(wanted.id);
        await bench.expectRemoval(wanted.id, before, 'after remove');
        return ended;
      });
    },
  },
  'successor-first': {
    title: 'no member leaves before its successor serves, wherever a change is cut off',
    run: async (bench, shapes) => {
      await bench.atEachCall(async (at) => {
        await bench.open().settle(shapes.plain());
        const ended = bench.open({ endAt: at });
        await ended.settle(shapes.changed());
        await bench.judgeTwice((owned) => {
          const [found] = owned.map(({ balancer }) => balancer);
          if (owned.length !== 1 || found === undefined)
            throw new CheckFailed(`after the crash, list has ${owned.length} balancers instead of 1`);
          expectSuccessors(found, shapes.plain(), shapes.changed());
        });
        return ended;
      });
    },
  },
  'whole-commit': {
    title: 'all of a change is in force or nothing of it, wherever it is cut off',
    needs: ['atomicCommit'],
    run: async (bench, shapes) => {
      await checkWhole(bench, null, shapes.plain());
      await checkWhole(bench, shapes.plain(), shapes.changed());
    },
  },
  'before-call': { title: 'what beforeCall throws comes out of each method unchanged', run: checkBeforeCall },
  abort: {
    title: 'ensure ends soon after its signal, before each call, and another one finishes it',
    run: async (bench, shapes) => {
      await bench.atEachCall(async (at) => {
        await bench.open().settle(shapes.plain());
        const controller = new AbortController();
        const subject = openDisturbed(bench, at, () => {
          controller.abort();
        });
        // It may reject then, or say how far it came.
        await subject.ensure(shapes.changed(), controller.signal).catch(() => null);
        const late = subject.calls.slice(at);
        if (controller.signal.aborted && late.length > maxLateCalls)
          throw new CheckFailed(
            `ensure makes ${late.length} more calls after its signal: ${quoteSome(late)}`,
          );
        await bench.bring(shapes.changed(), 'after another ensure');
        return subject;
      });
    },
  },
  'abort-waiting': {
    title: 'ensure ends soon after its signal while a unit does not answer',
    needs: ['holdAnswers'],
    run: async (bench, shapes) => {
      await bench.open().settle(shapes.plain());
      const undo = await demand(bench.actions.holdAnswers)();
      try {
        const controller = new AbortController();
        const call = bench.open().ensure(shapes.changed(), controller.signal);
        const ensured = call.catch(() => null);
        await sleep(bench.clock, 1000);
        controller.abort();
        const late = Promise.withResolvers<never>();
        const cancel = bench.clock.schedule(soonMs, () => {
          late.reject(new CheckFailed(`ensure has not ended ${soonMs / 1000} s after its signal`));
        });
        await Promise.race([ensured, late.promise]).finally(cancel);
      } finally {
        await undo();
      }
      await bench.bring(shapes.changed(), 'after another ensure');
    },
  },
  failover: {
    title: 'the units change their roles before each call of a change',
    needs: ['pair', 'switchRole'],
    run: async (bench, shapes) => {
      const switchRole = demand(bench.actions.switchRole);
      await disturbChange(bench, switchRole);
      await waitForSync(bench);
      await switchRole();
      await bench.bring(shapes.changed(), 'after one more change of roles');
    },
  },
  'failover-remove': {
    title: 'the units change their roles before each call of remove',
    needs: ['pair', 'switchRole'],
    run: async (bench, shapes) => {
      const switchRole = demand(bench.actions.switchRole);
      await bench.atEachCall(async (at) => {
        await bench.open().settle(shapes.plain());
        const subject = openDisturbed(bench, at, switchRole);
        await subject.settleRemoval(shapes.id());
        await bench.open().expectOnly([], 'after remove');
        return subject;
      });
    },
  },
  restart: {
    title: 'the active unit restarts before each call of a change',
    needs: ['restart'],
    run: async (bench, shapes) => {
      const restart = demand(bench.actions.restart);
      await bench.open().settle(shapes.plain());
      await restart();
      await bench.open().expectOnly([shapes.plain()], 'after a restart');
      await disturbChange(bench, restart);
      await restart();
      await bench.open().expectOnly([shapes.changed()], 'after the last restart');
    },
  },
  forget: {
    title: 'a device that lost all gets all again',
    needs: ['forget'],
    run: async (bench, shapes) => {
      const wanted = shapes.plain();
      await bench.open().settle(wanted);
      await demand(bench.actions.forget)();
      const subject = bench.open();
      await subject.expectOnly([], 'after the loss');
      if ((await subject.plan(wanted)).length === 0) throw new CheckFailed('after the loss, plan is empty');
      await bench.bring(wanted, 'after ensure');
    },
  },
  'lost-answer': {
    title: 'the answer of each call of a change gets lost',
    needs: ['loseNextAnswer'],
    run: (bench) => disturbChange(bench, demand(bench.actions.loseNextAnswer)),
  },
  refusal: {
    title: 'a device that refuses changes from each call on keeps what serves',
    needs: ['refuseWrites'],
    run: checkRefusal,
  },
  unreachable: {
    title:
      'while no unit answers, list and plan reject with unreachable, no unit is active, and ensure and remove fail',
    needs: ['disconnect'],
    run: async (bench, shapes) => {
      await bench.open().settle(shapes.plain());
      const undo = await demand(bench.actions.disconnect)();
      try {
        const subject = bench.open();
        const { driver } = subject;
        await expectUnreachable(
          'list',
          subject.ask('list', (signal) => driver.list(signal)),
        );
        await expectUnreachable(
          'plan',
          subject.ask('plan', (signal) => driver.plan(shapes.changed(), signal)),
        );
        const state = await subject.ask('readState', (signal) => driver.readState(signal)).catch(() => null);
        const active = state?.units.find(({ role }) => role === 'active');
        if (active !== undefined) throw new CheckFailed(`readState says that ${active.unit} is active`);
        expectFailed('ensure', await subject.ensure(shapes.changed()));
        expectFailed('remove', await subject.remove(shapes.id()));
      } finally {
        await undo();
      }
      await bench.expectSettled(shapes.plain(), 'when units answer again');
    },
  },
  'pending-changes': {
    title: 'changes of another user that wait are shown, and neither applied nor lost',
    needs: ['pendingChanges', 'changePending'],
    run: async (bench, shapes) => {
      const pending = await demand(bench.actions.changePending)();
      try {
        const { foreignChanges } = await bench.open().readState();
        if (foreignChanges.length === 0) throw new CheckFailed('readState shows no foreign changes');
        const { result } = await bench.open().ensure(shapes.plain());
        if (result === 'done') throw new CheckFailed('ensure is done while foreign changes wait');
        await bench.open().expectOnly([], 'while foreign changes wait');
        if (!(await pending.isPending())) throw new CheckFailed('the foreign changes no longer wait');
      } finally {
        await pending.revert();
      }
      await bench.bring(shapes.plain(), 'without foreign changes');
    },
  },
});

/** Of a listener that both have: what both have is there; and what goes is there as long as anything that comes is not. */
function expectSuccessors(found: Balancer, before: Balancer, after: Balancer): void {
  for (const listener of before.listeners) {
    const place = `${listener.protocol}/${listener.port}`;
    const [old = [], wanted, there = []] = [before, after, found].map((one) => listMembers(one, listener));
    if (wanted === undefined) continue;
    const gone = old.filter((member) => wanted.includes(member) && !there.includes(member));
    if (gone.length > 0) throw new CheckFailed(`${place} lost ${gone.join(', ')}, which was to stay`);
    const left = old.filter((member) => !wanted.includes(member) && !there.includes(member));
    const missing = wanted.filter((member) => !there.includes(member));
    if (left.length > 0 && missing.length > 0)
      throw new CheckFailed(`${place} lost ${left.join(', ')} before it got ${missing.join(', ')}`);
  }
}

/** The members of a balancer's listener; undefined where it has none at that place. */
function listMembers({ listeners }: Balancer, { protocol, port }: Listener): string[] | undefined {
  return listeners
    .find((one) => one.protocol === protocol && one.port === port)
    ?.members.map((member) => formatMember(member));
}

/** A change from one balancer, null for none, to another. */
async function checkWhole(bench: Bench, from: Balancer | null, to: Balancer): Promise<void> {
  await bench.atEachCall(async (at) => {
    if (from === null) await bench.open().settleRemoval(to.id);
    else await bench.open().settle(from);
    const ended = bench.open({ endAt: at });
    await ended.settle(to);
    await bench.judgeTwice((owned) => {
      const difference = findDifference(owned, [to]);
      if (difference !== null && findDifference(owned, from === null ? [] : [from]) !== null)
        throw new CheckFailed(`after the crash, list has a part of the change: it ${difference}`);
    });
    return ended;
  });
}

async function checkBeforeCall(bench: Bench, shapes: Shapes): Promise<void> {
  const wanted = shapes.plain();
  for (const name of ['list', 'plan', 'ensure', 'remove', 'readState'] as const) {
    const subject = bench.open({ endAt: 1 });
    const call = (signal: AbortSignal): Promise<unknown> => {
      if (name === 'list' || name === 'readState') return subject.driver[name](signal);
      return name === 'remove'
        ? subject.driver.remove(wanted.id, signal)
        : subject.driver[name](wanted, signal);
    };
    const answer = await subject
      .ask(name, call)
      .then(describeAnswer, (error: unknown) =>
        error instanceof ProcessEnd ? null : `rejects with something else: ${String(error)}`,
      );
    if (answer !== null) throw new CheckFailed(`${name} ${answer}`);
  }
}

function describeAnswer(answer: unknown): string {
  const isProgress = Object(answer) === answer && 'result' in Object(answer);
  return isProgress ? `answers ${describeProgress(answer as Progress)}` : 'does not reject';
}

/** Enough to give up a lock or a transaction. */
const maxLateCalls = 3;

/** The time limit of a request, and not of a whole change. */
const soonMs = 30_000;

/** Lets something happen before each call of a change, in turn, and expects the change to be done in the end. */
async function disturbChange(bench: Bench, happen: () => Promise<void>): Promise<void> {
  const { shapes } = bench;
  await bench.atEachCall(async (at) => {
    await bench.open().settle(shapes.plain());
    const subject = openDisturbed(bench, at, happen);
    await subject.settle(shapes.changed());
    await bench.expectSettled(shapes.changed(), 'after all');
    return subject;
  });
}

function openDisturbed(bench: Bench, at: number, happen: () => Promise<void> | void): Subject {
  return bench.open({ beforeCall: (call) => (call === at ? happen() : undefined) });
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

async function checkRefusal(bench: Bench, shapes: Shapes): Promise<void> {
  const refuseWrites = demand(bench.actions.refuseWrites);
  await bench.atEachCall(async (at) => {
    await bench.open().settle(shapes.plain());
    let undo = () => Promise.resolve();
    const subject = openDisturbed(bench, at, async () => {
      undo = await refuseWrites();
    });
    try {
      const { result } = await subject.ensureToEnd(shapes.changed());
      if (result === 'done') await bench.expectSettled(shapes.changed(), 'ensure is done while it refuses');
      const owned = await bench.open().list();
      const isWhole = [shapes.plain(), shapes.changed()].some((one) => findDifference(owned, [one]) === null);
      const serving = owned.flatMap(({ balancer }) =>
        balancer.listeners.map(({ members }) => members.length),
      );
      if (bench.capabilities.atomicCommit && !isWhole)
        throw new CheckFailed('while it refuses, list has a part of the change');
      if (serving.length === 0 || serving.includes(0))
        throw new CheckFailed('while it refuses, list has a listener without members, or none');
    } finally {
      await undo();
    }
    await bench.bring(shapes.changed(), 'after the refusals');
    return subject;
  });
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
