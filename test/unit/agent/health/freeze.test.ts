import { expect, test } from '@jest/globals';
import { freezeVerdict } from '../../../../agent/health/freeze.ts';
import { forEach } from '../timeline.ts';
import { play, testHealth } from './timeline.ts';

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

test.each(['slow', 'frozen', 'ailing'])(
  'where all others are %s, or have been, nobody is a witness',
  async (behaviour) => {
    const { changes } = await play(
      `m1 m2 ${behaviour}; wait 400; m3 frozen; wait 4000; m1 m2 healthy; wait 1000; m3 healthy; wait 20000`,
    );
    expect(changes.filter(({ reason }) => reason === freezeVerdict.reason)).toEqual([]);
  },
);

test.each([2600, 5000, 8000])(
  'when all are frozen for %i ms and go on one after the other, who is first is no witness of a freeze',
  async (ms) => {
    const { changes } = await play(
      `m1 frozen; wait 300; m2 frozen; wait 300; m3 frozen; wait ${ms + 300}; m2 healthy; wait 900;` +
        'm1 healthy; wait 900; m3 healthy; wait 20900',
    );
    expect(changes.filter(({ reason }) => reason === freezeVerdict.reason)).toEqual([]);
  },
);
