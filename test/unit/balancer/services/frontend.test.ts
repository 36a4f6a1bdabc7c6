import { describe, test, expect } from '@jest/globals';
import {
  type EndpointWords,
  makeLoadBalancer,
  makeEndpoints,
} from '../../../support/kube-api/service-objects.ts';
import type { Backend } from '../../../../lib/api/endpoints.ts';
import {
  applyEndings,
  applyKept,
  applyOutages,
  noOutages,
  type Place,
  type BalancedService,
} from '../../../../balancer/services/backends.ts';
import type { KubeObject } from '../../../support/kube-api/kube-store.ts';
import { balanceService } from '../../../../balancer/services/frontend.ts';
import { services, endpointSlices } from '../../../../lib/api/service.ts';

const place: Place = {
  ...{ node: 'n1', zone: 'a', local: new Set(['10.77.0.11']), vips: new Set(['10.77.0.60']) },
  uplinks: null,
};
const version = (object: KubeObject) => ({
  ...object,
  metadata: { ...object.metadata, resourceVersion: '1' },
});

/** What becomes of port 80 of a Service with these endpoints, on node n1 in zone a. */
function balance(
  endpoints: readonly EndpointWords[],
  spec: object = {},
  annotations: Record<string, string> = {},
  others: Partial<
    Pick<BalancedService, 'weights' | 'taken'> & Pick<Place, 'endings' | 'outages' | 'kept'>
  > = {},
) {
  const service = makeLoadBalancer('web', [{ port: 80 }], { spec, annotations });
  const { ports, refused, remarks, left } = balanceService(
    {
      service: services.schema.parse(version(service)),
      slices: [endpointSlices.schema.parse(version(makeEndpoints('web', [{ port: 8080 }], endpoints)))],
      addresses: { ipv4: ['10.77.0.60'], ipv6: [] },
      weights: new Map(),
      ...others,
    },
    'ipv4',
    { ...place, ...others },
  );
  const [port] = ports;
  return { port, refused, remarks, left, addresses: port?.backends.map(({ address }) => address) ?? [] };
}

/** A ready endpoint of a node, unless its conditions say otherwise. */
const on = (nodeName: string, address: string, conditions = {}) => ({
  ...{ addresses: [address], nodeName, conditions: { ready: true, ...conditions } },
});
/** The conditions of one that ends, and still serves. */
const last = { ready: false, serving: true, terminating: true };
/** Of a Service: pods see their clients. */
const local = { externalTrafficPolicy: 'Local' };

const marks: Readonly<Record<string, object>> = {
  '': {},
  '-': { ready: false },
  '~': last,
  '!': { ...last, serving: false },
};

/**
 * Pods by a line: `n1/2` is 10.244.1.2 on the node n1, and ready; n0 is no node. Behind it `-` is not ready, `~` ends and still serves, `!` ends
 * and does not.
 */
function pods(line: string): (Omit<ReturnType<typeof on>, 'nodeName'> & { nodeName?: string })[] {
  return line.split(' ').map((text) => {
    const [, node = '', pod = '', mark = ''] = /^n(\d+)\/(\d+)(.?)$/.exec(text) ?? [];
    const { nodeName, ...rest } = on(`n${node}`, `10.244.${node}.${pod}`, marks[mark]);
    return node === '0' ? rest : { ...rest, nodeName };
  });
}

/** Such a line of these. */
function toLine(ends: readonly { readonly address: string }[] = []): string {
  return ends.map(({ address }) => address.replace(/^10\.244\.(\d+)\.(\d+)$/, 'n$1/$2')).join(' ');
}

/** `Local`, and nodes: `end n1` for those that end, `out n2` for those that do not answer, `lost n2` for those of them without open connections, `kept n1` for those that Kubernetes has lost with most others. */
function readCase(text: string) {
  const list = (word: string) => (new RegExp(`${word} ([n\\d ]+)`).exec(text)?.[1] ?? '').trim().split(' ');
  const endings = new Map(list('end').map((node) => [node, 'shuts down' as const]));
  const outages = { out: new Set(list('out')), lost: new Set(list('lost')) };
  return {
    spec: text.startsWith('Local') ? local : {},
    others: { endings, outages, kept: new Set(list('kept')) },
  };
}

/** Where new connections go; who drains, is gone; to which nodes connections from outside go, and by which ones. */
function describeBalance(line: string, text: string): string {
  const { spec, others } = readCase(text);
  const { port } = balance(pods(line), spec, {}, others);
  if (port === undefined) return 'none';
  const { isHere, backends, draining, present, relay } = port;
  const gone = pods(line).flatMap(({ addresses: [address = ''] }) =>
    present.some((one) => one.address === address) ? [] : [{ address }],
  );
  const to = [...(relay?.ends.values() ?? [])].map((node) => node ?? 'here').join(' ');
  const parts = {
    ...{ drain: toLine(draining), gone: toLine(gone) },
    ...{ to, by: [...(relay?.nodes.keys() ?? [])].join(' ') },
  };
  const said = Object.entries(parts).flatMap(([name, value]) => (value === '' ? [] : [`${name} ${value}`]));
  return [`${isHere ? 'here' : 'away'} ${toLine(backends)}`.trim(), ...said].join('; ');
}

test.each(
  [
    'to those who are ready, on all nodes | n1/2 n2/2 n2/3- n2/4~ | - | here n1/2 n2/2; drain n2/4',
    'to those who end, when nobody is ready | n1/2~ n1/3- | - | here n1/2',
    'to nobody: they are refused | n1/2- | - | here',
    'not to who ends, whether or not it answers | n2/2 n1/2! | - | here n2/2; drain n1/2',
    "to this node's own | n1/2 n2/2 | Local | here n1/2; to here n2; by n2",
    "to this node's own, also those who end | n1/2~ n2/2 | Local | here n1/2; to n2; by n2",
    'to kube-proxy where all pods are elsewhere | n2/2 | Local | away; to n2; by n2',
    'to nobody while no node is known | n0/2 | Local | none',
    'to nobody without pods | n2/2- | Local | here; by n2',
    'not to who ends beside another | n2/2 n1/2~ n1/4 | Local | here n1/4; drain n1/2; to here n2; by n2',
    'here: who ends elsewhere drains there | n1/4 n2/2~ | Local | here n1/4; to here; by n2',
    'on to others, also open ones | n1/2 n2/2~ n3/2 | Local | here n1/2; to here n3; by n2 n3',
    'nowhere else where all pods are here | n1/2 | Local | here n1/2',
    'not to a node that ends, but for open ones | n1/2 n2/2 n3/2 | end n2 n9 | here n1/2 n3/2; drain n2/2',
    'to nodes that end, if all do | n1/2 n2/2- n3/2~ | end n1 n2 n3 | here n1/2 n3/2; drain n2/2',
    'to who is ready elsewhere | n1/2 n2/2- n3/2~ n4/2 | end n1 | here n4/2; drain n1/2 n3/2',
    'to one that ends before one that is out | n1/2 n2/2 | end n1 out n2 | here n1/2',
    'to other nodes, while this one ends | n1/2 n2/2 | Local end n1 | here n1/2; to n2; by n2',
    'here, while the other node ends | n1/2 n2/2 | Local end n2 | here n1/2; to here; by n2',
    'to all, while all end | n1/2 n2/2 | Local end n1 n2 | here n1/2; to here n2; by n2',
    'not to a node that is out | n1/2 n2/2 n3/2 n0/9 | out n2 | here n0/9 n1/2 n3/2',
    'not to one that is lost | n1/2 n2/2 n3/2 n0/9 | out n1 n2 lost n2 | here n0/9 n3/2; gone n2/2',
    'to lost nodes, where nobody would be left | n1/2 n2/2- | out n1 lost n1 | here n1/2',
    'to who is not ready on a kept node, and does not end | n1/2- n2/2- n2/3~ n3/2- | kept n1 n2 | here n1/2 n2/2; drain n2/3',
    'to a kept node beside one that is ready | n1/2- n2/2- n3/2 | kept n1 Local | here n1/2 n3/2',
    'not to a kept node that is out | n1/2- n2/2- | kept n1 n2 out n2 | here n1/2',
    'not to a kept node that shuts down | n1/2- n2/2- | kept n1 n2 end n2 | here n1/2; drain n2/2',
    'to who ends before who does not answer | n1/2 n2/2~ | out n1 | here n2/2',
  ].map((row) => row.split(' | ')),
)('connections go %s: %s, %s', (_, line = '', text = '', expected = '') => {
  expect(describeBalance(line, text)).toBe(expected);
});

test('without nodes that end or do not answer, the endpoints are the same objects', () => {
  const backends = ['w1', 'w2', null].map((node): Backend => {
    const state = { weight: 1, zone: null, isReady: true, isEnding: false, isServingLast: false };
    return { address: '10.244.1.2', port: 80, node, ...state, forZones: [], forNodes: [] };
  });
  const others = new Set(['w9']);
  expect(applyOutages(applyEndings(backends, new Set()), noOutages)).toBe(backends);
  const reported = applyKept(backends, others);
  expect(applyOutages(applyEndings(reported, others), { out: others, lost: new Set() })).toBe(backends);
});

describe('connections', () => {
  test('go to an endpoint that says nothing of itself', () => {
    expect(balance([{ addresses: ['10.244.1.2'], conditions: {} }]).addresses).toEqual(['10.244.1.2']);
  });

  test.each([
    [{}, { keepsClient: false, method: 'random', affinitySeconds: null, sources: null }],
    [local, { keepsClient: true }],
  ])('with %j are balanced like %j', (spec, expected) => {
    expect(balance(pods('n1/2'), spec).port).toMatchObject(expected);
  });

  test('go to those near this node, if hints say for all who is near whom', () => {
    const near = (address: string, zone: string) => ({
      ...on('n2', address),
      hints: { forZones: [{ name: zone }] },
    });
    expect(balance([near('10.244.1.2', 'a'), near('10.244.2.2', 'b')]).addresses).toEqual(['10.244.1.2']);
    expect(balance([near('10.244.1.2', 'c'), near('10.244.2.2', 'b')]).addresses).toHaveLength(2);
    expect(balance([near('10.244.1.2', 'a'), on('n2', '10.244.2.2')]).addresses).toHaveLength(2);
  });
});

describe('an endpoint that would lead back here', () => {
  test.each([
    ['127.0.0.1', 'default/web-ipv4 names 127.0.0.1, which is not an address of a pod (loopback)'],
    ['224.0.0.1', '(multicast)'],
    ['169.254.169.254', '(linkLocal)'],
    ['0.0.0.0', '(unspecified)'],
    ['10.77.0.60', 'which is the address of a Service'],
    ['fd00::1', 'which is not an IPv4 address'],
    ['a name', 'which is not an IPv4 address'],
  ])('is refused and named: %s', (address, reason) => {
    const { addresses, refused } = balance([on('n2', '10.244.2.2'), on('n2', address)]);
    expect(addresses).toEqual(['10.244.2.2']);
    expect(refused).toEqual([expect.stringContaining(reason)]);
  });

  test("is not one at an address of this node, which is served as on every other node, whoever's it is", () => {
    const byHand = { addresses: ['10.77.0.11'], conditions: { ready: true } };
    for (const endpoint of [byHand, on('n1', '10.77.0.11'), on('n2', '10.77.0.11')])
      expect(balance([endpoint])).toMatchObject({ addresses: ['10.77.0.11'], refused: [] });
  });
});

describe('how connections are spread', () => {
  test.each([
    ['rr', 0, { 'vipnat.io/method': 'rr' }],
    ['hash', 0, { 'lb.zdns.cn/method': 'hash' }],
    ['rr', 0, { 'vipnat.io/method': 'rr', 'lb.zdns.cn/method': 'hash' }],
    ['random', 1, { 'vipnat.io/method': 'unknown' }],
  ])('%s, with %i remarks, by %o', (method, count, annotations) => {
    const { port, remarks } = balance([on('n1', '10.244.1.2')], {}, annotations);
    expect([port?.method, remarks.length]).toEqual([method, count]);
  });

  test('a client keeps its endpoint for three hours, or as long as the Service says', () => {
    const kept = (spec: object) => balance([on('n1', '10.244.1.2')], spec).port?.affinitySeconds;
    expect(kept({ sessionAffinity: 'ClientIP' })).toBe(10_800);
    const sessionAffinityConfig = { clientIP: { timeoutSeconds: 60 } };
    expect(kept({ sessionAffinity: 'ClientIP', sessionAffinityConfig })).toBe(60);
  });

  test("source ranges let the Service's own address come where they let this host come", () => {
    const sources = (ranges: string[]) =>
      balance([on('n1', '10.244.1.2')], { loadBalancerSourceRanges: ranges }).port?.sources;
    expect(sources(['192.168.0.0/16'])).toEqual(['192.168.0.0/16']);
    expect(sources(['78.0.0.2', '10.77.0.11/32'])).toEqual(['10.77.0.11', '10.77.0.60', '78.0.0.2']);
    expect(sources(['10.77.0.0/24'])).toEqual(['10.77.0.0/24']);
  });

  test('source ranges that cannot be read are named, and too many leave the Service to kube-proxy', () => {
    const loadBalancerSourceRanges = ['010.0.0.0/8', '10.0.0.0/8', '10.0.0.0/33'];
    expect(balance([on('n1', '10.244.1.2')], { loadBalancerSourceRanges })).toMatchObject({
      port: { sources: ['10.0.0.0/8'] },
      remarks: [expect.stringContaining('has 2 source ranges that vipnat cannot read, such as 010.0.0.0/8')],
    });
    const many = Array.from({ length: 2001 }, (_, at) => `10.${at >> 8}.${at & 255}.0/24`);
    expect(balance([on('n1', '10.244.1.2')], { loadBalancerSourceRanges: many })).toMatchObject({
      port: undefined,
      left: 'it has more than 2000 source ranges',
    });
  });
});

test('a port that another Service had before is not balanced, and said', () => {
  const taken = new Map([['10.77.0.60 TCP 80', 'default/first']]);
  expect(balance([on('n1', '10.244.1.2')], {}, {}, { taken })).toMatchObject({
    port: undefined,
    remarks: ['default/web does not get TCP/80 of 10.77.0.60: default/first had it before'],
  });
});

describe('what the owner asks for', () => {
  const pods = [on('n1', '10.244.1.2')];

  test('the way kube-proxy: this node leaves it alone', () => {
    const by = (dataplane: string) => balance(pods, {}, { 'vipnat.io/dataplane': dataplane });
    expect(by('kube-proxy')).toMatchObject({ port: undefined, remarks: [] });
    expect(by('direct')).toMatchObject({ addresses: ['10.244.1.2'], remarks: [] });
  });

  test.each([
    ['method', 'wrr', 'the method wrr', 'pods are chosen at random'],
    ['dataplane', 'relay', 'the balancing mode relay', 'it is balanced directly'],
  ])('what vipnat does not have is said, and the default counts: %s %s', (name, value, what, effect) => {
    const { port, remarks } = balance(pods, {}, { [`vipnat.io/${name}`]: value });
    expect(port?.method).toBe('random');
    expect(remarks).toEqual([`default/web asks for ${what}, which vipnat does not have: ${effect}`]);
    const { remarks: ofLong } = balance(pods, {}, { [`vipnat.io/${name}`]: '\u0001'.repeat(200_000) });
    expect(ofLong.map(({ length }) => length < 600)).toEqual([true]);
  });
});

test.each([
  [300, {}, {}, 290],
  [30, {}, { 'vipnat.io/method': 'hash' }, 10],
  [30, {}, { 'vipnat.io/method': 'lc' }, 27],
  [60, { sessionAffinity: 'ClientIP' }, {}, 59],
  [30, local, {}, 9],
])('%d ports of a thousand endpoints each are too much with %j and %j', (ports, spec, annotations, few) => {
  const endpoints = Array.from({ length: 1000 }, (_, at) =>
    on(`n${at % 50}`, `10.244.${at >> 8}.${at & 255}`),
  );
  const list = (length: number) =>
    Array.from({ length }, (_, at) => ({ name: `p${at}`, port: at + 1, protocol: 'TCP' }));
  const { left } = balance(endpoints, { ...spec, ports: list(ports) }, annotations);
  expect(left).toBe(`1000 endpoints of each of ${ports} ports are more than its tables can have`);
  expect(balance(endpoints, { ...spec, ports: list(few) }, annotations).left).toBeNull();
});

test.each([
  ['30s', 30_000, []],
  ['1m30s', 90_000, []],
  ['0s', 0, []],
  [
    'soon',
    null,
    [
      'default/web asks for the drain timeout soon, which is not a duration: open connections stay until their pod is gone',
    ],
  ],
])('a drain timeout of %s', (text, drainMs, remarks) => {
  const balanced = balance([on('n1', '10.244.1.2')], {}, { 'vipnat.io/drain-timeout': text });
  expect([balanced.port?.drainMs, balanced.remarks]).toEqual([drainMs, remarks]);
});

describe('weights', () => {
  const all = pods('n1/1 n1/2 n1/3');
  const weigh = (weights: readonly number[], endpoints: readonly EndpointWords[] = all, spec = {}) =>
    balance(endpoints, spec, {}, { weights: new Map(weights.map((one, at) => [`10.244.1.${at + 1}`, one])) });

  test('go with the endpoints; who has none gets no connection, and drains', () => {
    const { port } = weigh([3, 0]);
    expect(port?.backends.map(({ address, weight }) => [address, weight])).toEqual([
      ['10.244.1.1', 3],
      ['10.244.1.3', 1],
    ]);
    expect(port?.draining.map(({ address }) => address)).toEqual(['10.244.1.2']);
  });

  test('of 0 for all who are ready have them all serve', () => {
    expect(weigh([0, 0, 0], [...all, on('n1', '10.244.1.4', last)])).toMatchObject({
      addresses: ['10.244.1.1', '10.244.1.2', '10.244.1.3'],
      port: { draining: [{ address: '10.244.1.4' }] },
    });
  });

  test('count where a node with policy Local sends on', () => {
    const elsewhere = on('n2', '10.244.1.4');
    expect(weigh([2, 0, 1], [...all, elsewhere], local).port?.relay?.weights).toEqual(
      new Map([
        ['10.244.1.1 . 8080', 2],
        ['10.244.1.3 . 8080', 1],
        ['10.244.1.4 . 8080', 1],
      ]),
    );
  });
});
