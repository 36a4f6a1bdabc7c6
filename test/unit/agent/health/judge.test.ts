import { testHealth, play } from './timeline.ts';
import { forEach } from '../timeline.ts';
import { endVerdict, judgeAll, freezeVerdict } from '../../../../agent/health/judge.ts';
import { test, expect } from '@jest/globals';
import { third, Monitored, second } from './monitored.ts';
import { initialize, trusted } from '../../../../agent/health/usable.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { emptyHistory } from '../../../../agent/health/apiserver.ts';

const others = 'm2 m3 m4 m5';

testHealth({
  ...forEach(['m1', 'm3'], (name) => [
    `a process that closes both connections of its probes is out at once, while its host still accepts others: ${name}`,
    `${name} ending; changes ${name} draining at once; ${name} says ^${endVerdict.reason}$; wait 2000; ${name} is draining;` +
      `${name} refusing; ${name} dead within 251`,
  ]),
  'in whichever order they close, within a tenth of a second':
    'close held m3; wait 90; close pings m3; m3 is draining',
  ...forEach(
    [
      ['only the held connection closes', 'close held m3'],
      ['only that of the pings closes', 'close pings m3'],
      ['each answer is the last on its connection', 'm3 curt'],
      ['they close while the agent itself does not run', 'stall 120000; close pings m3; close held m3'],
    ],
    ([what, cause]) => [`where ${what}, it stays`, `${cause}; wait 30000; no change`],
  ),
  'what closes the connections of both other hosts may be the network: one of them stays':
    'm2 m3 ending; states ready draining ready',
  'of many that end together only one is out, also if it was truly the network that ended them':
    `from m1 ${others}; ${others} ending; ${others} healthy; wait 10000;` +
    'changes m2 draining at once, m2 warming, m2 ready',
  'one that dies while others end is out by its own refusal, or by theirs':
    'm2 m3 ending; m2 refusing; m2 dead within 251; m3 is draining',
  'one that no other could replace stays':
    'm1 m2 failing; wait 4000; m3 is ready; m3 ending; m3 is ready; m1 m2 healthy; wait 5000; m1 is ready',
});

test('one that closed them and answers again was alive: it is used after three good answers', async () => {
  const { logger } = await play(
    'm3 ending; m3 healthy; wait 4000; changes m3 draining at once, m3 warming, m3 ready',
  );
  expect(logger.lines.filter(({ level }) => level === 'info').map(({ message }) => message)).toEqual([
    `${third} is draining: ${endVerdict.reason}`,
    expect.stringContaining(`${third} is ready again after`),
  ]);
});

test('one that answers nothing afterwards, and whose host accepts connections on, is told of', async () => {
  const { events } = await play('m3 ending; wait 5000');
  expect(events.recorded).toEqual([`ApiserverDraining ${third} is draining: ${endVerdict.reason}`]);
});

test('one of another family replaces nobody', async () => {
  const world = await Monitored.start([second, '[fd00::13]:6443']);
  world.apiservers.set(second, 'ending');
  expect(world.states).toEqual(['ready', 'ready']);
});

const [one, other] = [second, third].map((text) => ({
  ...initialize(toEndpoint(text), trusted, { now: 0, isLocal: false, isOwn: false }),
  history: { ...emptyHistory, connect: 'open' } as const,
}));
if (one === undefined || other === undefined) throw new Error('there are two');

test('after all looked bad, one that fails is out from the end of its grace on', () => {
  const failing = { ...one.history, failure: 'a reason', failureAt: 0 };
  const spared = { ...one, history: failing, ejectionGraceUntil: 15_000 };
  const ready = { ...other, history: { ...other.history, readyAt: 14_000 } };
  const states = [14_999, 15_000].map((now) => judgeAll([spared, ready], now)[0]?.state);
  expect(states).toEqual(['ready', 'draining']);
});

test('one that was suspected and ends is suspected no longer', () => {
  const suspected = { ...one, unconfirmedFailure: { reason: 'it is slow', since: 0 } };
  const ended = { ...suspected, history: { ...one.history, isEnded: true, endedAt: 5 } };
  expect(judgeAll([ended, other], 5)[0]).toMatchObject({ state: 'draining', unconfirmedFailure: null });
});

test('however often it closes them, it is out once in ten seconds at most', async () => {
  const { changes } = await play('close pings m3; close held m3; wait 5000;'.repeat(10));
  const count = changes.filter(({ state }) => state === 'draining').length;
  expect(count).toBeGreaterThan(1);
  expect(count).toBeLessThanOrEqual(5);
});

/** Ten ticks of 250 ms, and one until the first ping that is not answered. */
const frozen = 'm3 draining within 2750';

/** Points in time against the probes' own. */
const phasesMs = [0, 70, 140, 210, 333, 499, 700, 930];

testHealth({
  ...forEach(
    phasesMs.flatMap((ms) => ['m1', 'm3'].map((name) => [ms, name] as const)),
    ([ms, name]) => [
      `a frozen one is out after 2.5 s and within 2.75 s, whenever it begins: ${name}, ${ms} ms`,
      `wait ${ms}; ${name} frozen; ${name} draining after 2500 within 2750; changes ${name} draining at once;` +
        `${name} says ^${freezeVerdict.reason}$`,
    ],
  ),
  ...forEach(phasesMs, (ms) => [
    `a freeze of 2.2 s is nothing, whenever it begins: ${ms} ms`,
    `wait ${ms}; m3 frozen; wait 2200; m3 healthy; wait 30000; no change; suspected nobody`,
  ]),
  ...forEach(phasesMs, (ms) => [
    `one that answers everything 2 s late from now on, handshakes too, is never out: ${ms} ms`,
    `wait ${ms}; m3 slow; wait 120000; no change`,
  ]),
  ...forEach(phasesMs, (ms) => [
    `an agent that is stopped for 5 s takes nobody out, slow or well: ${ms} ms`,
    `m3 slow; ${`wait ${10_000 + ms}; stall 5000;`.repeat(5)} wait 10000; no change`,
  ]),
  ...forEach(phasesMs, (ms) => [
    `an agent that is stopped together with an apiserver, which goes on 2 s later, takes nobody out: ${ms} ms`,
    `wait ${ms}; m3 frozen; stall 60000; wait 1900; m3 healthy; wait 10000; no change`,
  ]),
  'a date that jumps is nothing':
    'm3 slow; jump 86400000; wait 10000; jump -172800000; wait 10000; no change',
  'where all are slow, a frozen one is out by three questions without an answer':
    'm1 m2 slow; m3 frozen; m3 draining after 8001 within 12000; m3 says ^it left 3 requests in a row unanswered$',
  'both others at once may be this host’s own network: they are out by three questions without an answer':
    'm2 m3 frozen; m3 draining after 8001 within 10000; m2 draining within 1000',
  ...forEach(['frozen', 'silent'], (behaviour) => [
    `when one is ${behaviour} and known for it, nobody waits for it: the next one is out as soon`,
    `m2 ${behaviour}; wait 5000; m3 frozen; ${frozen}`,
  ]),
  'of two apiservers, the other one may freeze: there is nobody else to ask': `from m1 m3; m3 frozen; ${frozen}`,
  'one that is frozen when the agent starts is out a second later than others':
    'from nobody; m3 frozen; list m1 m2 m3; m3 draining after 2501 within 3750',
  'one that is slow when the agent starts stays':
    'from nobody; m3 slow; list m1 m2 m3; wait 60000; no change',
  'one that goes on is used after three good answers, and a while of pings alone is none':
    'm3 frozen; m3 draining; wait 20000; m3 is draining; m3 healthy; m3 warming; m3 ready after 1901 within 4000',
  'one whose host was gone is not taken for frozen when it is back':
    'm3 silent; wait 20000; m3 healthy; wait 10000; changes m3 dead at once, m3 warming, m3 ready',
});

test.each(['slow', 'frozen', 'ailing'])('others that are or were %s are no witnesses', async (behaviour) => {
  const { changes } = await play(
    `m1 m2 ${behaviour}; wait 400; m3 frozen; wait 4000; m1 m2 healthy; wait 1000; m3 healthy; wait 20000`,
  );
  expect(changes.filter(({ reason }) => reason === freezeVerdict.reason)).toEqual([]);
});

test.each([2600, 5000, 8000])(
  'when all were frozen for %i ms, who goes on first is no witness',
  async (ms) => {
    const { changes } = await play(
      `m1 frozen; wait 300; m2 frozen; wait 300; m3 frozen; wait ${ms + 300}; m2 healthy; wait 900;` +
        'm1 healthy; wait 900; m3 healthy; wait 20900',
    );
    expect(changes.filter(({ reason }) => reason === freezeVerdict.reason)).toEqual([]);
  },
);
