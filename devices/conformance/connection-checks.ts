import { type Bench, CheckFailed, type Session, demand, toChecks } from './bench.ts';
import type { Shapes } from './shapes.ts';
import { sleep } from '../../lib/clock.ts';
import { formatMember } from '../driver.ts';

/** What becomes of connections that stay open. */
export const connectionChecks = toChecks({
  drain: {
    title: 'a member with weight 0 keeps its open connection, which is counted where the device counts',
    needs: ['drain', 'openSession'],
    run: checkDrain,
  },
  'least-connections': {
    title: 'with lc, new connections avoid a member that has open ones',
    needs: ['connect', 'openSession'],
    run: checkLeastConnections,
  },
});

/** How long a device may take to count a connection that came or went. */
const countTries = 30;

async function checkDrain(bench: Bench, shapes: Shapes): Promise<void> {
  const subject = bench.open();
  const members = [shapes.member(0), shapes.member(1)];
  const plain = shapes.withMembers(...members);
  await subject.settle(plain);
  const session = await demand(bench.actions.openSession)(plain);
  try {
    const name = formatMember(session.member);
    await expectSessions(bench, name, (count) => count > 0);
    const drained = members.map((one) => (formatMember(one) === name ? { ...one, weight: 0 } : one));
    await subject.settle(shapes.withMembers(...drained));
    if (!(await session.isOpen())) throw new CheckFailed('with weight 0, the open connection is gone');
    await expectSessions(bench, name, (count) => count > 0);
    await session.close();
    await expectSessions(bench, name, (count) => count === 0);
    const last = shapes.withMembers(...members.filter((one) => formatMember(one) !== name));
    await bench.bring(last, 'after the drain');
  } finally {
    await session.close();
  }
}

async function expectSessions(bench: Bench, name: string, isRight: (count: number) => boolean) {
  if (!bench.capabilities.sessions) return;
  let counted: number | undefined;
  for (let attempt = 0; attempt < countTries; attempt += 1) {
    const [owned] = await bench.open().list();
    counted = owned?.memberToSessions?.get(name);
    if (counted !== undefined && isRight(counted)) return;
    await sleep(bench.clock, 1000);
  }
  throw new CheckFailed(`list counts ${counted ?? 'no'} open connections of ${name} after ${countTries} s`);
}

/** So many that each of two members has more of them than clients that have just gone. */
const openConnections = 8;

/** Nothing is written meanwhile: devices that load a new configuration count from zero. */
async function checkLeastConnections(bench: Bench, shapes: Shapes): Promise<void> {
  if (!shapes.methods.includes('lc')) return;
  const [connect, openSession] = [demand(bench.actions.connect), demand(bench.actions.openSession)];
  const wanted = { ...shapes.withMembers(shapes.member(0), shapes.member(1)), method: 'lc' as const };
  await bench.open().settle(wanted);
  const sessions: Session[] = [];
  try {
    for (let at = 0; at < openConnections; at += 1) sessions.push(await openSession(wanted));
    const [busy] = sessions.map(({ member }) => formatMember(member));
    for (const session of sessions) if (formatMember(session.member) !== busy) await session.close();
    const [{ signal }, listener] = [new AbortController(), demand(wanted.listeners[0])];
    const reach = () => connect(wanted, listener, signal);
    for (let attempt = 0; attempt < countTries; attempt += 1) {
      if (![await reach(), await reach(), await reach()].includes(busy)) return;
      await sleep(bench.clock, 1000);
    }
    throw new CheckFailed(`clients reach ${busy}, which alone has open connections`);
  } finally {
    for (const session of sessions) await session.close();
  }
}
