import type { Cache } from '../../../../controller/cache/cache.ts';
import {
  nowMs,
  makeCache,
  makePool,
  makeNode,
  makeReport,
  makeService,
  makeVirtualIp,
  makeNamespace,
  publish,
} from '../../../support/fakes/service-objects.ts';
import { nodes, serviceCidrs } from '../../../../lib/api/node.ts';
import { describe, test, expect } from '@jest/globals';
import type { Affected, StepKey } from '../../../../controller/cache/known.ts';

const metadata = { name: 'x', uid: 'x', resourceVersion: '1' };
const put = <T>(after: T | null, before: T | null = null, key = 'x') => ({ key, before, after });

function findRefusal(cache: Cache): string | null {
  return cache.view(nowMs).judgedPools.get('pool')?.refusal?.message ?? null;
}

function begin(addresses = ['10.0.9.10-10.0.9.20', 'fd00:9::/120']): Cache {
  return makeCache({ pools: [makePool('pool', { addresses })] });
}

const node = (parts: object) => nodes.schema.parse({ metadata, ...parts });
const cidr = (cidrs: readonly string[]) => serviceCidrs.schema.parse({ metadata, spec: { cidrs } });
const slice = (address: string) => ({
  metadata: { name: 'kubernetes', resourceVersion: '1' },
  addressType: 'IPv4',
  endpoints: [{ addresses: [address] }],
});

describe('a pool is refused, and its condition names the address and whose it is', () => {
  const kubernetes = makeService('default/kubernetes', { spec: { clusterIP: '10.0.9.10' } });
  const report = makeReport('x', 1, { apiVips: ['10.0.9.19', 'nonsense'] });
  const onNode = (spec: object) => (cache: Cache) => cache.take('nodes', put(node({ spec })));
  const heldPods = { podCIDR: '10.0.9.16/28', podCIDRs: ['10.0.9.16/28'] };

  test.each<[string, (cache: Cache) => Affected]>([
    ['10.0.9.20 belongs to the node x.', (cache) => cache.take('nodes', put(makeNode('x', {}, '10.0.9.20')))],
    ['10.0.9.16-10.0.9.31 belongs to the pods of the node x.', onNode(heldPods)],
    ['10.0.9.0-10.0.9.255 belongs to the pods of the node x.', onNode({ podCIDR: '10.0.9.0/24' })],
    [
      'fd00:9::-fd00:9::ffff belongs to the ServiceCIDR x.',
      (cache) => cache.take('serviceCidrs', put(cidr(['10.96.0.0/16', 'fd00:9::/112']))),
    ],
    ["10.0.9.19 belongs to the API's virtual IP.", (cache) => cache.takeReport('x', report)],
    ['10.0.9.12 belongs to an apiserver.', (cache) => cache.take('apiservers', put(slice('10.0.9.12')))],
    [
      '10.0.9.10 belongs to the Service default/kubernetes, as its ClusterIP.',
      (cache) => cache.take('services', put(kubernetes)),
    ],
    ["10.0.9.11 belongs to the API's virtual IP.", (cache) => cache.reserve(['10.0.9.11'])],
  ])('%s', (message, change) => {
    const cache = begin();
    expect(findRefusal(cache)).toBeNull();
    expect(change(cache).keys).toContainEqual({ kind: 'AddressPool', key: 'pool' });
    expect(findRefusal(cache)).toBe(message);
  });

  test('and is accepted when that has gone', () => {
    const cache = begin();
    const service = makeService('apps/a', { spec: { clusterIPs: ['10.0.9.10'] } });
    cache.take('services', put(service, null, 'apps/a'));
    expect(findRefusal(cache)).not.toBeNull();
    const { keys, wakes } = cache.take('services', put(null, service, 'apps/a'));
    expect(keys).toContainEqual({ kind: 'AddressPool', key: 'pool' });
    expect(wakes).toContain('addresses');
    expect(findRefusal(cache)).toBeNull();
  });
});

test('a Service whose ClusterIP is in no pool is no news for pools', () => {
  const service = makeService('apps/a', { spec: { clusterIP: '10.96.0.7' } });
  const { keys, wakes } = begin().take('services', put(service));
  expect(keys.map(({ kind }) => kind)).toEqual(['Service']);
  expect([...wakes]).toEqual([]);
});

test.each<[string, string, object, string[]]>([
  ['a port of its own', '', { spec: { ports: [{ port: 81 }] } }, []],
  ['a port where it shares its address', 'web', { spec: { ports: [{ port: 81 }] } }, ['addresses']],
  ['an address that leaves its status', '', { status: publish() }, ['addresses']],
  ['a label', 'web', { metadata: { labels: { a: 'b' } } }, []],
])('those who wait for an address are woken by what can free one: %s', (_, shareKey, parts, woken) => {
  const status = publish('10.0.9.10');
  const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/a'], { spec: { shareKey } })];
  const cache = makeCache({ services: [makeService('apps/a', { status })], virtualIps });
  const after = makeService('apps/a', { status, ...parts });
  expect([...cache.take('services', { key: 'apps/a', after }).wakes]).toEqual(woken);
});

test('a node that may hold addresses of a pool now, or no longer, is news for the Services that have them', () => {
  const nodeSelector = { matchLabels: { lb: 'yes' } };
  const pools = [
    makePool('pool', { addresses: ['10.0.9.10'], nodeSelector }),
    makePool('other', { addresses: ['10.0.9.11'] }),
  ];
  const services = ['apps/a', 'apps/b'].map((key) => makeService(key));
  const virtualIps = [
    makeVirtualIp('10.0.9.10', ['apps/a']),
    makeVirtualIp('10.0.9.11', ['apps/b'], { spec: { pool: 'other' } }),
  ];
  const cache = makeCache({ pools, services, virtualIps, nodes: [makeNode('x')] });
  const listServices = (after: ReturnType<typeof makeNode> | null) =>
    cache
      .take('nodes', { key: 'x', after })
      .keys.filter(({ kind }) => kind === 'Service')
      .map(({ key }) => key);
  expect(listServices(makeNode('x', { lb: 'yes' }))).toEqual(['apps/a']);
  expect(listServices(makeNode('x', { lb: 'yes', rack: '7' }))).toEqual([]);
  expect([listServices(makeNode('x', { lb: 'no' })), listServices(null)]).toEqual([['apps/a'], ['apps/b']]);
});

test('a node that has nothing yet is news: it may hold addresses', () => {
  expect([...begin().take('nodes', put(node({}))).wakes]).toContain('nodes');
});

describe('an address that a Service names for itself', () => {
  test('is news for the pools that have it, and for who waits for an address', () => {
    const service = makeService('apps/a', { spec: { externalIPs: ['10.0.9.12', '192.0.2.1'] } });
    const { keys, wakes } = begin().take('services', put(service));
    expect(keys).toContainEqual({ kind: 'AddressPool', key: 'pool' });
    expect([...wakes]).toEqual(['addresses']);
  });

  const others = { loadBalancerClass: 'other.io/lb', loadBalancerIP: '10.0.9.10' };

  test.each([
    ['an external IP', { externalIPs: ['fd00:9:0::7'] }, ['fd00:9::7 of apps/a']],
    ["another load balancer's address", others, ['10.0.9.10 of apps/a']],
    ['an address that it asks us for', { loadBalancerIP: '10.0.9.10' }, []],
  ])('%s', (_, spec, claimed) => {
    const cache = begin();
    cache.take('services', put(makeService('apps/a', { spec }), null, 'apps/a'));
    expect(cache.view(nowMs).exclusions.list('pool')).toEqual(claimed);
  });

  test('is kept back as long as the pool selects the namespace and the Service', () => {
    const selectors = {
      namespaceSelector: { matchLabels: { team: 'web' } },
      serviceSelector: { matchLabels: { tier: 'edge' } },
    };
    const pool = makePool('pool', { addresses: ['10.0.9.10'], ...selectors });
    const spec = { type: 'ClusterIP', externalIPs: ['10.0.9.10'] };
    const other = makeService('apps/a', { spec });
    const service = makeService('apps/a', { spec, metadata: { labels: { tier: 'edge' } } });
    const cache = makeCache({ pools: [pool], services: [service] });
    const list = () => cache.view(nowMs).exclusions.list('pool');
    expect(list()).toEqual([]);
    const namespace = makeNamespace('apps', { team: 'web' });
    const news = cache.take('namespaces', put(namespace, null, 'apps'));
    expect(news.keys).toContainEqual({ kind: 'AddressPool', key: 'pool' });
    expect(list()).toEqual(['10.0.9.10 of apps/a']);
    const { keys, wakes } = cache.take('services', put(other, service, 'apps/a'));
    expect(keys).toContainEqual({ kind: 'AddressPool', key: 'pool' });
    expect([...wakes]).toEqual(['addresses']);
    expect(list()).toEqual([]);
  });

  test('is one of 64 of a Service: who writes more keeps back no more', () => {
    const externalIPs = Array.from({ length: 200 }, (_, index) => `10.0.9.${index}`);
    const cache = begin(['10.0.9.0/24']);
    cache.take('services', put(makeService('apps/a', { spec: { externalIPs } }), null, 'apps/a'));
    expect(cache.view(nowMs).exclusions.list('pool')).toHaveLength(64);
  });
});

describe('a report of a node is news', () => {
  const virtualIps = [
    makeVirtualIp('10.0.9.10', [], { spec: { seat: 0 } }),
    makeVirtualIp('10.0.9.11', [], { spec: { seat: 1 } }),
  ];
  const cache = () =>
    makeCache({
      pools: [makePool('pool', { addresses: ['10.0.9.10-10.0.9.20'] })],
      virtualIps,
      reports: [makeReport('node-1', 1, { seats: ['pool/0'] })],
    });
  const ofVirtualIp = (keys: readonly StepKey[]) =>
    keys.flatMap((key) => (key.kind === 'VirtualIP' ? [key.key] : []));

  test.each([
    ['for the addresses of a seat that it takes', { seats: ['pool/0', 'pool/1'] }, ['10.0.9.11']],
    ['of a seat that it leaves', { seats: [] }, ['10.0.9.10']],
    ['of a seat that it holds in another mode', { seats: ['pool/0'], mode: 'kube-proxy' }, ['10.0.9.10']],
    ['for no other', { seats: ['pool/0'] }, []],
  ] as const)('%s', (_, parts, names) => {
    expect(ofVirtualIp(cache().takeReport('node-1', makeReport('node-1', 2, parts)).keys)).toEqual(names);
  });

  test('when its Lease is over, too', () => {
    expect(ofVirtualIp(cache().takeReport('node-1', null).keys)).toEqual(['10.0.9.10']);
  });
});

describe('a report of newer versions wakes those who wait', () => {
  const reports = [
    makeReport('w1', 5, { seats: [] }),
    makeReport('w2', 9),
    makeReport('w3', 9, { seats: [] }),
    makeReport('w4', 3, { seats: [] }),
  ];
  const nodes = ['w1', 'w2', 'w3'].map((name) => makeNode(name, { lb: 'yes' }));
  const nodeSelector = { matchLabels: { lb: 'yes' } };
  const pools = [
    makePool('pool', { addresses: ['10.0.9.10'], nodeSelector }),
    makePool('nobody', { addresses: ['10.0.9.11'], nodeSelector: { matchLabels: { lb: 'no' } } }),
  ];
  type Candidates = ReturnType<Cache['view']>['candidates'];
  const pool = (candidates: Candidates) => candidates.haveProgrammed('pool', 'virtualips', '9');
  const all = (candidates: Candidates) => candidates.haveForgotten('9');
  const announced = (candidates: Candidates) => candidates.hasAnnounced(makeReport('w2', 9), '10');
  const nobody = (candidates: Candidates) => !candidates.haveProgrammed('nobody', 'virtualips', '9');

  test.each<[string, (candidates: Candidates) => boolean, string, string[]]>([
    ['the last of a pool', pool, 'w1 6', ['nodes']],
    ['one that is ahead', pool, 'w2 10', []],
    ['one that is in no pool', pool, 'w4 9', []],
    ['the last of all', all, 'w4 4', ['nodes']],
    ['another one than that', all, 'w1 9', []],
    ['one that has lost versions', pool, 'w3 4', ['nodes']],
    ['who holds the seat', announced, 'w2 10', ['nodes']],
    ['who does not', announced, 'w3 10', []],
    ['where no node is', nobody, 'w3 10', []],
    ['while nobody waits', () => false, 'w1 9', []],
  ])('%s', (_, ask, change, woken) => {
    const [node = '', text = ''] = change.split(' ');
    const cache = makeCache({ pools, nodes, reports: [...reports, makeReport('w5', 3)] });
    const report = reports.find((one) => one.node === node) ?? makeReport(node, 0);
    expect(ask(cache.view(nowMs).candidates)).toBe(false);
    // Two are last of all: the first of them changes nothing yet.
    cache.takeReport('w5', makeReport('w5', 9));
    const after = { ...report, programmed: { virtualips: text, services: text }, announced: text };
    expect([...cache.takeReport(node, after).wakes]).toEqual(woken);
    const asked = ask(cache.view(nowMs).candidates);
    const again = makeCache({ pools, nodes, reports: [...reports, makeReport('w5', 9), after] });
    expect(asked).toBe(ask(again.view(nowMs).candidates));
  });
});

test("the VRID of the API's virtual IP that a node reports is reserved while its Lease exists", () => {
  const cache = makeCache({});
  const apiVips = ['10.0.9.19', 'fd00:9::fe', '10.0.9.255', 'nonsense'];
  cache.takeReport('x', makeReport('x', 1, { apiVips }));
  cache.reserve(['10.0.8.6']);
  expect([...cache.view(0).reservedVrids].sort((a, b) => a - b)).toEqual([7, 20, 255]);
  cache.markUnresponsive('x', '2026-01-01T00:00:00Z');
  expect(cache.view(0).reservedVrids.has(20)).toBe(true);
  cache.takeReport('x', null);
  expect([...cache.view(0).reservedVrids]).toEqual([7]);
});

test('when a VirtualIP was wanted as it is begins anew with another object of its name, and is never ahead of the date', () => {
  const cache = begin();
  const before = makeVirtualIp('10.0.9.10', []);
  const { name } = before.metadata;
  const again = { ...before, metadata: { ...before.metadata, uid: 'another', resourceVersion: '29' } };
  const look = (ms: number) => Object.values(cache.view(ms).generations.get(name) ?? {});
  cache.take('virtualIps', { key: name, after: before });
  expect(look(nowMs)).toEqual(['20', nowMs]);
  cache.take('virtualIps', { key: name, after: again });
  expect(look(nowMs + 1000)).toEqual(['29', nowMs + 1000]);
  expect(look(nowMs - 3_600_000)).toEqual(['29', nowMs - 3_600_000]);
});
