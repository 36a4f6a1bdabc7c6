import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import type { HealthState } from '../../../../agent/health/judge.ts';
import {
  type HealthView,
  chooseUsable,
  unprobed,
  initialize,
  isLivenessOnly,
  trusted,
} from '../../../../agent/health/usable.ts';
import { test, expect } from '@jest/globals';

const texts = ['10.0.0.11:6443', '10.0.0.12:6443', '10.0.0.13:6443'];
const known = { value: texts.map(toEndpoint), seenIn: 'kube-proxy', fallbackEndpoints: [], own: null };

function see(...states: readonly HealthState[]): HealthView {
  return new Map(
    states.map((state, index) => [
      texts[index] ?? '',
      { state, reason: 'a reason', staleConnections: 'none' } as const,
    ]),
  );
}

const readStates = (text: string) => text.split(' ') as HealthState[];
const atPlaces = (text: string) => text.split(' ').map((place) => known.value[Number(place)]);

test.each([
  ['ready ready ready', '0 1 2'],
  ['ready dead ready', '0 2'],
  ['ready warming draining', '0'],
  ['dead warming draining', '1'],
  ['dead dead draining', '2'],
])('of apiservers that are %s, new connections go to those at %s', (states, chosen) => {
  const { value, isFailOpen } = chooseUsable(known, see(...readStates(states)));
  expect([value, isFailOpen]).toEqual([atPlaces(chosen), false]);
});

test.each([
  ['ready', 'ready', '0 1'],
  ['warming', 'ready', '0 1'],
  ['draining', 'ready', '2'],
  ['draining', 'warming', '0 1'],
  ['draining', 'draining', '0 1'],
  ['dead', 'warming', '2'],
  ['dead', 'draining', '2'],
  ['dead', 'dead', '0 1'],
])('with all who are listed %s and one named before %s, new connections go to %s', (state, other, chosen) => {
  const listed = { ...known, value: known.value.slice(0, 2), fallbackEndpoints: known.value.slice(2) };
  const { value } = chooseUsable(listed, see(...readStates(`${state} ${state} ${other}`)));
  expect(value).toEqual(atPlaces(chosen));
});

test.each([
  ['nobody has probed the only fallback', known.value.slice(2), 'dead dead'],
  ['who is ready is neither listed nor a fallback', [], 'dead dead ready'],
])('all listed ones are kept, dead as they are, where %s', (_, fallbackEndpoints, states) => {
  const listed = { ...known, value: known.value.slice(0, 2), fallbackEndpoints };
  const kept = { value: listed.value, seenIn: 'kube-proxy', isFailOpen: true };
  expect(chooseUsable(listed, see(...readStates(states)))).toEqual(kept);
});

test("when all are dead, those whom somebody names go before this host's own apiserver", () => {
  const [listed, named, own] = texts.map(toEndpoint);
  if (listed === undefined || named === undefined || own === undefined) throw new Error('there are three');
  const choices = { ...known, value: [listed], fallbackEndpoints: [named], own };
  expect(chooseUsable(choices, see('dead', 'ready', 'ready'))).toMatchObject({
    value: [named],
    isSubstitute: true,
  });
  expect(chooseUsable(choices, see('dead', 'dead', 'ready'))).toMatchObject({
    value: [own],
    seenIn: "this node's own, which no source lists, because 10.0.0.11:6443 is dead",
  });
});

test('who has not been probed counts as ready, and nobody known is nobody to keep', () => {
  const { value, seenIn } = known;
  expect(chooseUsable(known, unprobed)).toEqual({ value, seenIn, isFailOpen: false });
  expect(chooseUsable({ ...known, value: [] }, unprobed)).toEqual({ value: [], seenIn, isFailOpen: false });
});

test('who is left out is named with the state that it is in', () => {
  expect(chooseUsable(known, see('ready', 'dead', 'draining')).seenIn).toBe(
    '10.0.0.12:6443 is dead, 10.0.0.13:6443 is draining',
  );
});

test('who has shown for ten seconds only that it lives will show no more', () => {
  const [endpoint] = known.value;
  if (endpoint === undefined) throw new Error('there are three');
  const one = initialize(endpoint, trusted, { now: 0, isLocal: false, isOwn: false });
  const lives = { ...one.history, livenessOnly: 'a reason', livenessSince: 5 };
  const judgeAt = (readyAt: number) => isLivenessOnly({ ...one, history: { ...lives, readyAt } });
  expect([10_004, 10_005].map(judgeAt)).toEqual([false, true]);
});
