import { sleep } from '../../control/clock.ts';
import { formatMember } from '../driver.ts';
import { type Bench, demand } from './bench.ts';
import { type Check } from './check.ts';
import { CheckFailed } from './check-failed.ts';
import { quoteSome } from './compare.ts';
import { type Session } from './target.ts';

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
