import { describe, expect, test } from '@jest/globals';
import { findRelayNeeds, planRelay } from '../../../../balancer/decide/relay.ts';
import { type Backend } from '../../../../lib/services/endpoints.ts';

function make(
  node: string | null,
  address: string,
  state: 'ready' | 'ends' | 'not ready' = 'ready',
): Backend {
  const isEnding = state === 'ends';
  const conditions = { isReady: state === 'ready', isEnding, isServingLast: isEnding };
  return { address, port: 8080, node, zone: null, weight: 1, ...conditions, forZones: [], forNodes: [] };
}

const plan = (backends: readonly Backend[], protocol = 'TCP', routed: ReadonlySet<string> = new Set()) =>
  planRelay(backends, { here: 'n1', protocol, routed });

describe('connections that are sent on', () => {
  test('go to each endpoint alike, wherever it is', () => {
    expect(
      plan([make('n1', '10.244.1.2'), make('n2', '10.244.2.2'), make('n2', '10.244.2.3')])?.ends,
    ).toEqual(
      new Map([
        ['10.244.1.2 . 8080', null],
        ['10.244.2.2 . 8080', 'n2'],
        ['10.244.2.3 . 8080', 'n2'],
      ]),
    );
  });

  test('go to endpoints that end, when no other is there', () => {
    expect([...(plan([make('n2', '10.244.2.2', 'ends')])?.ends.values() ?? [])]).toEqual(['n2']);
  });

  test('take the way to an endpoint that serves, where a node has one', () => {
    const backends = [make('n2', '10.244.2.2'), make('n2', '10.244.2.3', 'ends')];
    expect(plan(backends)?.nodes).toEqual(new Map([['n2', '10.244.2.2']]));
  });

  test('of TCP still find a node whose endpoints end; packets of UDP do not', () => {
    const backends = [make('n1', '10.244.1.2'), make('n2', '10.244.2.2', 'ends')];
    expect(plan(backends)?.nodes).toEqual(new Map([['n2', '10.244.2.2']]));
    expect(plan(backends, 'UDP')).toBeNull();
  });

  test('go to no node whose pods are behind the router, which would send them back', () => {
    const backends = [make('n2', '10.244.2.2'), make('n3', '203.0.113.9'), make('n3', '203.0.113.8', 'ends')];
    const routed = new Set(['203.0.113.9']);
    expect(plan(backends, 'TCP', routed)?.nodes).toEqual(new Map([['n2', '10.244.2.2']]));
    expect([...(plan(backends, 'TCP', routed)?.ends.keys() ?? [])]).toEqual(['10.244.2.2 . 8080']);
    expect(plan(backends.slice(1), 'TCP', routed)).toBeNull();
  });

  test('are none where all endpoints are here, or nobody says where they are', () => {
    expect(plan([make('n1', '10.244.1.2')])).toBeNull();
    expect(plan([make(null, '10.244.2.2')])).toBeNull();
    expect(plan([])).toBeNull();
  });

  test('have a way past IPVS where one of them needs it', () => {
    const relay = { ends: new Map(), weights: new Map(), nodes: new Map([['n2', '10.244.2.2']]) };
    expect(findRelayNeeds([])).toBe('no relays');
    expect(findRelayNeeds([relay])).toBe('relays');
    expect(findRelayNeeds([relay, { ...relay, uplinks: ['eth0'] }])).toBe('relays past IPVS');
  });
});
