import { expect, test } from '@jest/globals';
import { type HealthState } from '../../../../agent/health/endpoint-health.ts';
import { chooseUsable, type HealthView, unprobed } from '../../../../agent/health/usable.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';

const texts = ['10.0.0.11:6443', '10.0.0.12:6443', '10.0.0.13:6443'];
const known = { value: texts.map(toEndpoint), seenIn: 'kube-proxy' };

function see(...states: readonly HealthState[]): HealthView {
  return new Map(
    states.map((state, index) => [
      texts[index] ?? '',
      { state, reason: 'a reason', staleConnections: 'none' } as const,
    ]),
  );
}

test.each<[readonly HealthState[], readonly number[]]>([
  [
    ['ready', 'ready', 'ready'],
    [0, 1, 2],
  ],
  [
    ['ready', 'dead', 'ready'],
    [0, 2],
  ],
  [['ready', 'warming', 'draining'], [0]],
  [['dead', 'warming', 'draining'], [1]],
  [['dead', 'dead', 'draining'], [2]],
])('of apiservers that are %j, new connections go to those at %j', (states, chosen) => {
  const { value, isFailOpen } = chooseUsable(known, see(...states));
  expect(value).toEqual(chosen.map((index) => known.value[index]));
  expect(isFailOpen).toBe(false);
});

test.each<[HealthState, HealthState, readonly number[]]>([
  ['ready', 'ready', [0, 1]],
  ['warming', 'ready', [0, 1]],
  ['draining', 'ready', [2]],
  ['draining', 'warming', [0, 1]],
  ['draining', 'draining', [0, 1]],
  ['dead', 'warming', [2]],
  ['dead', 'draining', [2]],
  ['dead', 'dead', [0, 1]],
])(
  'with all who are listed %s and one who was named before %s, new connections go to %j',
  (state, other, chosen) => {
    const listed = { ...known, value: known.value.slice(0, 2) };
    const { value } = chooseUsable(listed, see(state, state, other));
    expect(value).toEqual(chosen.map((index) => known.value[index]));
  },
);

test('when all are dead, all are kept', () => {
  expect(chooseUsable(known, see('dead', 'dead', 'dead'))).toEqual({ ...known, isFailOpen: true });
});

test('who has not been probed counts as ready, and nobody known is nobody to keep', () => {
  expect(chooseUsable(known, unprobed)).toEqual({ ...known, isFailOpen: false });
  const nobody = { value: [], seenIn: 'nowhere' };
  expect(chooseUsable(nobody, unprobed)).toEqual({ ...nobody, isFailOpen: false });
});

test('who is left out is named with the state that it is in', () => {
  expect(chooseUsable(known, see('ready', 'dead', 'draining')).seenIn).toBe(
    '10.0.0.12:6443 is dead, 10.0.0.13:6443 is draining',
  );
});
