import { Monitored } from './monitored.ts';
import { playSteps, testTimelines, type Verbs } from '../timeline.ts';
import { formatEndpoint } from '../../../../lib/net.ts';
import type { Behaviour } from '../../../support/fakes/apiserver.ts';
import type { HealthState } from '../../../../agent/health/judge.ts';
import { expect } from '@jest/globals';

const toText = (name: string) => `10.0.0.1${name.slice(1)}:6443`;
const toName = (text: string) => text.replace(/^10\.0\.0\.1(\d):6443$/, 'm$1');
const listTexts = (names: string) => (names.match(/m\d/g) ?? []).map(toText);

/** Plays what masters do to a monitor: of `m1 m2 m3`, or of those that the first step names. m1 is its own host's. */
export async function play(timeline: string): Promise<Monitored> {
  const [, from = 'm1 m2 m3', steps = ''] = /^(?:from ([^;]*);)?(.*)$/s.exec(timeline) ?? [];
  const world = await Monitored.start(listTexts(from));
  await playSteps(steps.trim(), { ...listCauses(world), ...listChecks(world), ...listReports(world) });
  return world;
}

export function testHealth(titleToTimeline: Readonly<Record<string, string>>): void {
  testTimelines(titleToTimeline, play);
}

function listCauses(world: Monitored): Verbs {
  const { apiservers, clock, monitor } = world;
  const all = () => monitor.all.map(({ endpoint }) => formatEndpoint(endpoint));
  const listOf = (who: string) => (who === 'all' ? all() : listTexts(who));
  const toEach = (act: (text: string) => void) => (who: string) => {
    for (const text of listOf(who)) act(text);
  };
  return {
    'wait (\\d+)': (ms) => clock.advance(Number(ms)),
    'jump (-?\\d+)': (ms) => {
      clock.jump(Number(ms));
    },
    'stall (\\d+)': (ms) => {
      clock.stall(Number(ms));
    },
    'list (.*)': (who = '') => {
      world.watch(listTexts(who));
    },
    'block (.*)': toEach(apiservers.block.bind(apiservers)),
    'drain (.*)': toEach(apiservers.drain.bind(apiservers)),
    'undrain (.*)': toEach((text) => {
      apiservers.drain(text, false);
    }),
    'close held (.*)': toEach(apiservers.closeHeld.bind(apiservers)),
    'close pings (.*)': toEach(apiservers.closePings.bind(apiservers)),
    [`([m\\d ]+|all) (${behaviours})`]: (who = '', behaviour) => {
      for (const text of listOf(who)) apiservers.set(text, behaviour as Behaviour);
    },
  };
}

const behaviours =
  'healthy|refusing|silent|clogged|unreachable|ending|frozen|slow|failing|ailing|curt|secretive';

/** How masters are then. */
function listChecks(world: Monitored): Verbs {
  const see = (name: string) => world.monitor.view.get(toText(name));
  return {
    '(m\\d) (ready|warming|draining|dead)(?: after (\\d+))?(?: within (\\d+))?': async (
      name = '',
      state,
      least = '0',
      most = '60000',
    ) => {
      const ms = await world.waitFor(toText(name), state as HealthState);
      expect(ms).toBeGreaterThanOrEqual(Number(least));
      expect(ms).toBeLessThanOrEqual(Number(most));
    },
    '(m\\d) keeps its connections for (\\d+)': async (name = '', ms) => {
      for (let passed = 0; passed < Number(ms); passed += 50) {
        await world.clock.advance(50);
        expect(see(name)?.staleConnections).not.toBe('all');
      }
    },
    'all are (\\w+)': (state = '') => [world.states.filter((one) => one !== state), []],
    'states (.*)': (states) => [world.states.join(' '), states],
    '(m\\d) stale (.*)': (name = '', stale) => [see(name)?.staleConnections, stale],
    '(m\\d) is (un)?heard': (name = '', un = '') => [see(name)?.isUnresponsive ?? false, un !== ''],
    '(m\\d) is (un)?drained': (name = '', un = '') => [see(name)?.isDrained ?? false, un === ''],
    '(m\\d) is (\\w+)': (name = '', state) => [world.find(toText(name)).state, state],
  };
}

function listReports(world: Monitored): Verbs {
  const toChange = ({ endpoint, state, isUrgent }: Monitored['changes'][number]) =>
    `${toName(endpoint)} ${state} ${isUrgent ? 'at once' : ''}`.trim();
  const matching = (text: string): unknown => expect.stringMatching(new RegExp(text));
  const doubtOf = (name: string) => world.find(toText(name)).unconfirmedFailure?.reason;
  return {
    'no change': () => [world.changes, []],
    'changes (.*)': (changes) => [world.changes.map(toChange).join(', '), changes],
    'suspected (.*)': (who) => [world.suspicions.map(toName).join(' ') || 'nobody', who],
    'all doubted': () => [world.monitor.all.filter((one) => one.unconfirmedFailure === null), []],
    'nobody doubted': () => [world.monitor.all.filter((one) => one.unconfirmedFailure !== null), []],
    '(m\\d) says (.*)': (name = '', text = '') => [world.find(toText(name)).reason, matching(text)],
    '(m\\d) doubted (.*)': (name = '', text = '') => [doubtOf(name), matching(text)],
  };
}
