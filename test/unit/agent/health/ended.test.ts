import { expect, test } from '@jest/globals';
import { endVerdict } from '../../../../agent/health/end.ts';
import { meet, trusted } from '../../../../agent/health/first-sight.ts';
import { judgeAll } from '../../../../agent/health/judge.ts';
import { emptyHistory } from '../../../../agent/probe/probe-history.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { forEach } from '../timeline.ts';
import { Monitored, second, third } from './monitored.ts';
import { play, testHealth } from './timeline.ts';

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

test('one that was suspected and ends is suspected no longer', () => {
  const [one, other] = [second, third].map((text) => ({
    ...meet(toEndpoint(text), trusted, { now: 0, isLocal: false, isOwn: false }),
    history: { ...emptyHistory, connect: 'open' } as const,
  }));
  if (one === undefined || other === undefined) throw new Error('there are two');
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
