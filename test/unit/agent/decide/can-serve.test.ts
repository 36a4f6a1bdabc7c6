import { describe, expect, test } from '@jest/globals';
import { canServe } from '../../../../agent/decide/can-serve.ts';
import { type Health } from '../../../../agent/health/usable.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';

const vip = toEndpoint('10.0.0.50:6443');
const own = '10.0.0.11:6443';
const others = ['10.0.0.12:6443', '10.0.0.13:6443'] as const;
const all = [own, ...others];

const ready: Health = { state: 'ready', reason: '', staleConnections: 'none' };
const refusing: Health = { state: 'dead', reason: 'refused', staleConnections: 'none' };
const silent: Health = { state: 'dead', reason: 'no answer', staleConnections: 'half-open' };
const unheard: Health = { state: 'ready', reason: '', staleConnections: 'none', isSilent: true };
const lost: Health = { ...silent, isLost: true };
const longUnheard: Health = { ...unheard, isLost: true };

interface Case {
  readonly backends?: readonly string[];
  readonly health: Readonly<Record<string, Health>>;
  readonly local?: string;
  readonly isListening?: boolean;
  readonly isLeaving?: boolean;
}

const judge = ({ backends = all, health, local = '10.0.0.11', isListening = true, isLeaving }: Case) =>
  canServe({
    decisions: [{ vip, backends: backends.map((text) => toEndpoint(text)) }],
    addresses: [{ family: 'ipv4', address: local, device: 'eth0' }],
    health: new Map(Object.entries(health)),
    isListening: () => isListening,
    isLeaving: isLeaving ?? false,
  });

describe('a node may hold the VIP', () => {
  test.each<[string, Case]>([
    ['while all is well', { health: { [own]: ready, [others[0]]: ready, [others[1]]: ready } }],
    ['before anybody was probed', { health: {} }],
    [
      'when its own apiserver is dead',
      { health: { [own]: refusing, [others[0]]: ready, [others[1]]: ready } },
    ],
    [
      'when only one apiserver lives',
      { health: { [own]: refusing, [others[0]]: silent, [others[1]]: ready } },
    ],
    ['when only its own lives', { health: { [own]: ready, [others[0]]: lost, [others[1]]: lost } }],
    [
      'when only its own lives, and nobody else is heard',
      { health: { [own]: ready, [others[0]]: longUnheard, [others[1]]: longUnheard } },
    ],
    [
      'when its own is dead, and nobody else is heard for a moment',
      { health: { [own]: refusing, [others[0]]: unheard, [others[1]]: silent } },
    ],
    [
      'when all refuse: nobody would do better',
      { health: { [own]: refusing, [others[0]]: refusing, [others[1]]: refusing } },
    ],
    ['when its own is the only one and dead', { backends: [own], health: { [own]: refusing } }],
    [
      'when nothing is balanced and its own apiserver lives',
      { backends: [], health: { [own]: ready, [others[0]]: ready } },
    ],
    ['when nothing is balanced and no apiserver is known', { backends: [], health: {} }],
    [
      'when nothing is known and nobody listens: another node does no better',
      { backends: [], health: {}, isListening: false },
    ],
    [
      'when nobody listens on the VIP’s port, but it is balanced over its own apiserver',
      { backends: [own], health: { [own]: ready, [others[0]]: ready }, isListening: false },
    ],
    [
      'when nothing is balanced, nobody listens and all others refuse',
      { backends: [], health: { [own]: ready, [others[0]]: refusing }, isListening: false },
    ],
  ])('%s', (_, given) => {
    expect(judge(given)).toBe(true);
  });
});

describe('a node is to leave the VIP', () => {
  test.each<[string, Case]>([
    [
      'when nothing is balanced, its own apiserver lives and nobody listens on the VIP’s port',
      { backends: [], health: { [own]: ready, [others[0]]: ready }, isListening: false },
    ],
    [
      'when nothing is balanced, its own apiserver is dead and another lives',
      { backends: [], health: { [own]: refusing, [others[0]]: ready } },
    ],
    [
      'when nothing is balanced and it has no apiserver of its own',
      { backends: [], health: { [own]: ready, [others[0]]: ready }, local: '10.0.0.99' },
    ],
    [
      'when its own is dead and no answer comes from the others, which may serve elsewhere',
      { health: { [own]: refusing, [others[0]]: longUnheard, [others[1]]: longUnheard } },
    ],
    [
      'when its own is dead and no other host is heard, which is this side’s fault',
      { health: { [own]: refusing, [others[0]]: lost, [others[1]]: lost } },
    ],
  ])('%s', (_, given) => {
    expect(judge(given)).toBe(false);
  });
});

const drained: Health = { state: 'draining', reason: '', staleConnections: 'none', isDrained: true };

test.each<[string, Health, boolean]>([
  ['is ready', ready, false],
  ['is warming', { ...ready, state: 'warming' }, false],
  ['is drained too', drained, true],
  ['refuses connections', refusing, true],
  ['is not heard, as no other is', unheard, true],
])(
  'a drained node that holds the VIP, while the only other apiserver %s: may it? (%#)',
  (_, other, mayHold) => {
    const health = { [own]: drained, [others[0]]: other };
    expect(judge({ health, isLeaving: true })).toBe(mayHold);
    // Without the drain it may, whatever the other is like.
    expect(judge({ health })).toBe(true);
  },
);

test('of two VIPs one that is served is enough: all move together', () => {
  const health = new Map([
    [own, refusing],
    [others[0], ready],
  ]);
  const served = { vip: toEndpoint('[fd00::50]:6443'), backends: [toEndpoint('[fd00::12]:6443')] };
  const notServed = { vip, backends: [] };
  const addresses = [{ family: 'ipv4', address: '10.0.0.11', device: 'eth0' }] as const;
  expect(canServe({ decisions: [notServed], addresses, health, isListening: () => true })).toBe(false);
  expect(canServe({ decisions: [notServed, served], addresses, health, isListening: () => true })).toBe(true);
});
