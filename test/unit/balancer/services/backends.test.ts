import type { Family } from '../../../../lib/net.ts';
import {
  listSources,
  readSourceRanges,
  maxSourceRanges,
  planRelay,
  listUplinks,
  findUplinks,
} from '../../../../balancer/services/backends.ts';
import { findRelayNeeds } from '../../../../balancer/table/programmer.ts';
import { test, expect, describe } from '@jest/globals';
import type { Backend } from '../../../../lib/api/endpoints.ts';

const nowhere = { addresses: [], local: new Set<string>() };
const list = (
  texts: readonly string[] | null,
  family: Family,
  place: Parameters<typeof listSources>[2] = nowhere,
) => listSources(readSourceRanges(texts), family, place);

test('a Service without ranges lets everybody come, and one without a range of the family nobody of it', () => {
  expect([null, [], [' ']].map((texts) => list(texts, 'ipv4'))).toEqual([null, null, null]);
  expect([list(['10.0.0.0/8'], 'ipv6'), list(['no range'], 'ipv4')]).toEqual([[], []]);
});

test('ranges are of the family, without their host bits, and as few as they can be', () => {
  const given = [
    ...['10.1.2.3/8', '10.9.0.0/16', ' 192.168.0.7/32', 'fd00::1/64', '10.0.0.0/8', '12.0.0.0/9'],
    '12.128.0.0/9',
  ];
  expect(list(given, 'ipv4')).toEqual(['10.0.0.0/8', '12.0.0.0/8', '192.168.0.7']);
  expect(list(['FD00:0::1/64', 'fd00::5', '::1/128', '::1.2.3.4/128'], 'ipv6')).toEqual([
    '::1',
    '::102:304',
    'fd00::/64',
  ]);
  expect(list(['0.0.0.0/0', '::ffff:10.0.0.0/104'], 'ipv4')).toEqual(['0.0.0.0/0']);
});

test.each([
  ...['010.0.0.0/8', '10.0.0.0/08', '10.0.0.0/33', '10.0.0/8', '0x0a.0.0.0/8', 'fe80::1%eth0/64'],
  ...['10.0.0.0/', 'fd00::/129'],
])('what may be meant otherwise is no range, and is named: %s', (text) => {
  expect(readSourceRanges([text, '10.0.0.0/8'])).toMatchObject({
    malformed: [text],
    familyToRanges: { ipv4: { texts: ['10.0.0.0/8'] }, ipv6: { texts: [] } },
  });
});

test('a list is read once, and one that is too long not at all', () => {
  const texts = Array.from({ length: maxSourceRanges }, (_, at) => `10.${at >> 7}.${(2 * at) & 255}.0/24`);
  expect(readSourceRanges(texts)).toBe(readSourceRanges(texts));
  expect(list(texts, 'ipv4')).toHaveLength(maxSourceRanges);
  expect(list(texts, 'ipv4')).toBe(list(texts, 'ipv4'));
  const looked: unknown[] = [];
  const more = new Proxy([...texts, '10.0.0.0/8'], {
    get(target, key) {
      looked.push(key);
      return Reflect.get(target, key) as unknown;
    },
  });
  expect([readSourceRanges(more).isTooLong, looked]).toEqual([true, ['length']]);
});

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

  test('have a way past IPVS where one of them needs it', () => {
    const relay = { ends: new Map(), weights: new Map(), nodes: new Map([['n2', '10.244.2.2']]) };
    expect([findRelayNeeds([]), findRelayNeeds([relay])]).toEqual(['no relays', 'relays']);
    expect(findRelayNeeds([relay, { ...relay, uplinks: ['eth0'] }])).toBe('relays past IPVS');
  });
});

const on = (device: string, address: string, prefixLength: number) =>
  ({ family: address.includes(':') ? 'ipv6' : 'ipv4', device, address, prefixLength }) as const;
const host = [
  on('lo', '127.0.0.1', 8),
  on('eth0', '10.77.0.11', 24),
  on('eth0', '10.77.0.60', 32),
  on('eth1', '10.77.0.12', 24),
  on('cni0', '10.244.1.1', 24),
  on('eth0', 'fd77::11', 64),
];
const ipvs = on('kube-ipvs0', '10.77.0.60', 32);

test('clients come by the interfaces in whose subnet the address is; without one of kube-proxy the kernel can tell', () => {
  expect([listUplinks(host), findUplinks(['10.77.0.60'], null)]).toEqual([null, null]);
  const uplinks = listUplinks([...host, ipvs]);
  expect(findUplinks(['10.77.0.60'], uplinks)).toEqual(['eth0', 'eth1']);
  expect(findUplinks(['fd77::60'], uplinks)).toEqual(['eth0']);
  expect(findUplinks(['10.99.0.60'], uplinks)).toBeNull();
});
