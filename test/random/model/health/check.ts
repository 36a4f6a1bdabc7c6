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
    ...apiservers.filter(isStray).map((one) => `${one} is listed no more, and may be chosen`),
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
    ...(perSecond > questionsASecond ? [`${one} is asked ${perSecond} times within a second (I13)`] : []),
    ...(inTenSeconds > connectsInTenSeconds ? [`${inTenSeconds} connects to ${one} in 10 s (I13)`] : []),
    ...(questions.length > most ? [`${one} is asked ${questions.length} times, not ${most} (I13)`] : []),
  ];
}

/** What the questions are for: who fails gets no new connection while another one does well. */
function findKept(world: HealthWorld): string[] {
  if (!apiservers.some((one) => world.behaviourOf(one) === 'healthy' && world.stateOf(one) === 'ready'))
    return [];
  return apiservers
    .filter((one) => world.behaviourOf(one) === 'failing' && world.stateOf(one) === 'ready')
    .map((one) => `${one} fails and is kept, though another one does well`);
}
