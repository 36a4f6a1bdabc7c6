import { countMost } from '../../../support/fakes/sent-log.ts';
import { apiservers } from './changes.ts';
import { type HealthWorld } from './world.ts';

const questionsASecond = 4;

/** One each 250 ms, one burst, and one that began together with the first. */
const connectsInTenSeconds = 40 + 13 + 1;

/** What is wrong at the end of a walk, after all has been left alone for ten seconds. */
export function findComplaints(world: HealthWorld): string[] {
  const isStray = (one: string) => world.behaviourOf(one) === null && world.stateOf(one) !== undefined;
  return [
    ...apiservers.flatMap((one) => findExcess(world, one)),
    ...findKept(world),
    ...findDrained(world),
    ...apiservers.filter(isStray).map((one) => `${one} is listed no more, and may be chosen`),
  ];
}

/** By then a frozen apiserver is out, if others are as they should be. */
export const freezeMs = 3000;

/** What is wrong so soon after the last change. */
export function findSoonComplaints(world: HealthWorld): string[] {
  const since = world.now - freezeMs - settledMs;
  // Who was met a moment ago has not answered all that time.
  const isWell = (one: string) =>
    world.joinsOf(one) === 1 &&
    world.stateOf(one) === 'ready' &&
    isAlways(world.listBehaviours(one, since), 'healthy');
  return apiservers
    .filter((one) => {
      const [before, after, ...more] = world.listBehaviours(one, since);
      const isFrozen = before === 'healthy' && after === 'frozen' && more.length === 0;
      const isSeen = isFrozen && apiservers.slice(1).some((other) => other !== one && isWell(other));
      return isSeen && world.behaviourOf(one) !== null && world.stateOf(one) === 'ready';
    })
    .map((one) => `${one} is frozen, and gets connections ${freezeMs} ms later`);
}

/** What was so for so long before a change has been judged. */
const settledMs = 4500;

const isAlways = (behaviours: readonly string[], behaviour: string) =>
  behaviours.every((one) => one === behaviour);

/**
 * Who only became slow, or froze when all did, stays. `restMs` is for how long nothing has changed, and `before` are the states
 * before the last change.
 */
export function findUnfair(
  world: HealthWorld,
  restMs: number,
  before: ReadonlyMap<string, string | undefined>,
): string[] {
  const histories = apiservers.map((one) => world.listBehaviours(one, world.now - restMs - settledMs));
  const areAllFrozen = histories.every(([first, last, ...more]) => {
    return first === 'healthy' && last === 'frozen' && more.length === 0;
  });
  return apiservers
    .filter((one, index) => {
      const isSlow = histories[index]?.every((was) => was === 'healthy' || was === 'slow') === true;
      const isOut = before.get(one) === 'ready' && ['draining', 'dead'].includes(String(world.stateOf(one)));
      return (isSlow || areAllFrozen) && isOut && !world.isDrained(one) && world.behaviourOf(one) !== null;
    })
    .map((one) => `${one} is ${areAllFrozen ? 'frozen as all are' : 'slow or well'}, and out`);
}

const pingsASecond = 4;
const pingConnectionsInFourSeconds = 2;

function findPingExcess(world: HealthWorld, one: string): string[] {
  const { pings, pingConnections } = world.sent.to(one);
  const perSecond = countMost(pings, 1000);
  const connections = countMost(pingConnections, 4000);
  return [
    ...(perSecond > pingsASecond ? [`${one} is pinged ${perSecond} times within a second (I13)`] : []),
    ...(connections > pingConnectionsInFourSeconds
      ? [`${connections} connections for pings to ${one} in 4 s (I13)`]
      : []),
  ];
}

/** I13. */
function findExcess(world: HealthWorld, one: string): string[] {
  const { questions, connects, turns } = world.sent.to(one);
  const perSecond = countMost(questions, 1000);
  const inTenSeconds = countMost(connects, 10_000);
  const badTimes = apiservers.map((other) => (other === one ? 0 : world.sent.to(other).badTimes));
  const extra = badTimes.reduce((sum, times) => sum + times, 0) + turns + world.joinsOf(one);
  const most = Math.ceil(world.now / 1000) + extra;
  return [
    ...findPingExcess(world, one),
    ...(perSecond > questionsASecond ? [`${one} is asked ${perSecond} times within a second (I13)`] : []),
    ...(inTenSeconds > connectsInTenSeconds ? [`${inTenSeconds} connects to ${one} in 10 s (I13)`] : []),
    ...(questions.length > most ? [`${one} is asked ${questions.length} times, not ${most} (I13)`] : []),
  ];
}

const drainChecksInTenSeconds = 5;

/** Who is drained and accepts connections is draining, and who is not drained is not because of that. */
function findDrained(world: HealthWorld): string[] {
  return apiservers.flatMap((one) => {
    const checks = countMost(world.sent.to(one).drainChecks, 10_000);
    if (checks > drainChecksInTenSeconds) return [`${checks} drain checks of ${one} in 10 s (I13)`];
    if (world.behaviourOf(one) !== 'healthy') return [];
    const isDraining = world.stateOf(one) === 'draining';
    if (isDraining === world.isDrained(one)) return [];
    return [`${one} is ${String(world.stateOf(one))}, and its host is ${isDraining ? 'not ' : ''}drained`];
  });
}

/** What the questions are for: who fails gets no new connection while another one does well. */
function findKept(world: HealthWorld): string[] {
  if (!apiservers.some((one) => world.behaviourOf(one) === 'healthy' && world.stateOf(one) === 'ready'))
    return [];
  return apiservers
    .filter((one) => world.behaviourOf(one) === 'failing' && world.stateOf(one) === 'ready')
    .map((one) => `${one} fails and is kept, though another one does well`);
}
