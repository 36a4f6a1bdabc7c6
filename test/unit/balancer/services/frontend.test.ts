import { describe, test, expect } from '@jest/globals';
import { balance, on, last, local } from '../../../support/fakes/balanced-port.ts';
import { type Backend, chooseServing } from '../../../../lib/api/endpoints.ts';
import { applyOutages, noOutages, listUnresponsive } from '../../../../balancer/services/backends.ts';

describe('where connections go', () => {
  test('to those who are ready, on all nodes', () => {
    const { addresses, port } = balance([
      on('n1', '10.244.1.2'),
      on('n2', '10.244.2.2'),
      on('n2', '10.244.2.3', { ready: false }),
      on('n2', '10.244.2.4', last),
    ]);
    expect(addresses).toEqual(['10.244.1.2', '10.244.2.2']);
    expect(port).toMatchObject({
      keepsClient: false,
      method: 'random',
      affinitySeconds: null,
      sources: null,
    });
    expect(port?.present.map(({ address }) => address)).toContain('10.244.2.3');
  });

  test('to those who end and still serve, when nobody is ready', () => {
    expect(
      balance([on('n1', '10.244.1.2', last), on('n1', '10.244.1.3', { ready: false })]).addresses,
    ).toEqual(['10.244.1.2']);
  });

  test('to nobody when there is nobody: they are refused', () => {
    expect(balance([on('n1', '10.244.1.2', { ready: false })]).port).toMatchObject({ backends: [] });
  });

  test('to an endpoint that says nothing of itself', () => {
    expect(balance([{ addresses: ['10.244.1.2'], conditions: {} }]).addresses).toEqual(['10.244.1.2']);
  });

  test("to this node's own with policy Local, also those who end", () => {
    const elsewhere = on('n2', '10.244.2.2');
    expect(balance([on('n1', '10.244.1.2'), elsewhere], local).addresses).toEqual(['10.244.1.2']);
    expect(balance([on('n1', '10.244.1.2', last), elsewhere], local).addresses).toEqual(['10.244.1.2']);
    expect(balance([on('n1', '10.244.1.2')], local).port).toMatchObject({ keepsClient: true });
  });

  test('to kube-proxy with policy Local and all pods elsewhere, and to nobody without pods', () => {
    expect(balance([on('n2', '10.244.2.2')], local).port).toMatchObject({ isHere: false, backends: [] });
    expect(balance([{ addresses: ['10.244.2.2'] }], local).port).toBeUndefined();
    expect(balance([on('n2', '10.244.2.2', { ready: false })], local).port).toMatchObject({
      isHere: true,
      backends: [],
    });
  });

  test('on to other nodes with policy Local, from outside', () => {
    const { port } = balance(
      [on('n1', '10.244.1.2'), on('n2', '10.244.2.2', last), on('n3', '10.244.3.2')],
      local,
    );
    expect(port?.relay).toMatchObject({
      ends: new Map([
        ['10.244.1.2 . 8080', null],
        ['10.244.3.2 . 8080', 'n3'],
      ]),
      // n2 has open connections.
      nodes: new Map([
        ['n2', '10.244.2.2'],
        ['n3', '10.244.3.2'],
      ]),
    });
    expect(balance([on('n1', '10.244.1.2')], local).port?.relay).toBeNull();
    expect(balance([on('n2', '10.244.2.2')]).port?.relay).toBeNull();
  });

  test('to those near this node, if hints say for all who is near whom', () => {
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
    for (const endpoint of [byHand, on('n1', '10.77.0.11'), on('n2', '10.77.0.11')]) {
      expect(balance([endpoint])).toMatchObject({ addresses: ['10.77.0.11'], refused: [] });
    }
  });
});

describe('how connections are spread', () => {
  test.each([
    ['rr', { 'vipnat.io/method': 'rr' }],
    ['hash', { 'lb.zdns.cn/method': 'hash' }],
    ['rr', { 'vipnat.io/method': 'rr', 'lb.zdns.cn/method': 'hash' }],
    ['random', { 'vipnat.io/method': 'unknown' }],
  ])('%s by %o', (method, annotations) => {
    expect(balance([on('n1', '10.244.1.2')], {}, annotations).port?.method).toBe(method);
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
    expect(sources(['10.77.0.11/32'])).toEqual(['10.77.0.11', '10.77.0.60']);
    expect(sources(['10.77.0.0/24'])).toEqual(['10.77.0.0/24']);
  });

  test('source ranges that cannot be read are named, and too many leave the Service to kube-proxy', () => {
    const loadBalancerSourceRanges = ['010.0.0.0/8', '10.0.0.0/8', '10.0.0.0/33'];
    expect(balance([on('n1', '10.244.1.2')], { loadBalancerSourceRanges })).toMatchObject({
      port: { sources: ['10.0.0.0/8'] },
      remarks: [
        expect.stringContaining(
          'default/web has 2 source ranges that vipnat cannot read, such as 010.0.0.0/8',
        ),
      ],
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
    expect(balance(pods, {}, { 'vipnat.io/dataplane': 'kube-proxy' })).toMatchObject({
      port: undefined,
      remarks: [],
    });
    expect(balance(pods, {}, { 'vipnat.io/dataplane': 'direct' })).toMatchObject({
      addresses: ['10.244.1.2'],
      remarks: [],
    });
  });

  test.each([
    [
      'method',
      'wrr',
      'default/web asks for the method wrr, which vipnat does not have: pods are chosen at random',
    ],
    [
      'dataplane',
      'relay',
      'default/web asks for the balancing mode relay, which vipnat does not have: it is balanced directly',
    ],
  ])('what vipnat does not have is said, and the default counts: %s %s', (name, value, remark) => {
    const { port, remarks } = balance(pods, {}, { [`vipnat.io/${name}`]: value });
    expect(port?.method).toBe('random');
    expect(remarks).toEqual([remark]);
    const { remarks: ofLong } = balance(pods, {}, { [`vipnat.io/${name}`]: '\u0001'.repeat(200_000) });
    expect(ofLong.map(({ length }) => length < 600)).toEqual([true]);
  });

  test('a method that vipnat has is no remark', () => {
    expect(balance(pods, {}, { 'lb.zdns.cn/method': 'rr' })).toMatchObject({
      port: { method: 'rr' },
      remarks: [],
    });
  });
});

test.each([
  [300, {}, {}, 290],
  [30, {}, { 'vipnat.io/method': 'hash' }, 10],
  [30, {}, { 'vipnat.io/method': 'lc' }, 27],
  [2, { sessionAffinity: 'ClientIP' }, {}, 1],
  [30, local, {}, 9],
])(
  '%d ports with a thousand endpoints of each are too much with %j and %j',
  (ports, spec, annotations, few) => {
    const endpoints = Array.from({ length: 1000 }, (_, at) =>
      on(`n${at % 50}`, `10.244.${at >> 8}.${at & 255}`),
    );
    const list = (length: number) =>
      Array.from({ length }, (_, at) => ({ name: `p${at}`, port: at + 1, protocol: 'TCP' }));
    const { left } = balance(endpoints, { ...spec, ports: list(ports) }, annotations);
    expect(left).toBe(`1000 endpoints of each of ${ports} ports are more than its tables can have`);
    expect(balance(endpoints, { ...spec, ports: list(few) }, annotations).left).toBeNull();
  },
);

function make(node: string | null, state: 'ready' | 'serving' | 'not ready' = 'ready'): Backend {
  const address = `10.244.0.${node?.slice(1) ?? 9}`;
  const isEnding = state === 'serving';
  const conditions = { isReady: state === 'ready', isEnding, isServingLast: isEnding };
  return { address, port: 80, weight: 1, node, zone: null, ...conditions, forZones: [], forNodes: [] };
}

const all = [make('w1'), make('w2'), make('w3'), make(null)];
const out = (nodes: readonly string[], lost: readonly string[] = []) => ({
  out: new Set(nodes),
  lost: new Set(lost),
});
const nodesOf = (backends: readonly Backend[]) => backends.map(({ node }) => node);

test('without outages all stays as it is', () => {
  expect(applyOutages(all, noOutages)).toBe(all);
  expect(applyOutages(all, out(['w9']))).toBe(all);
});

test('the endpoints of nodes that are out take no new connection, and are still there', () => {
  const left = applyOutages(all, out(['w2']));
  expect(nodesOf(chooseServing(left))).toEqual(['w1', 'w3', null]);
  expect(nodesOf(left)).toEqual(nodesOf(all));
  expect(nodesOf(listUnresponsive(left, out(['w2'])))).toEqual(['w2']);
});

test('those of nodes that are lost are gone', () => {
  const left = applyOutages(all, out(['w1', 'w2'], ['w2']));
  expect(nodesOf(left)).toEqual(['w1', 'w3', null]);
});

test('where nobody would be left, all serve as before, also those of lost nodes', () => {
  const some = [make('w1'), make('w2', 'not ready')];
  const outages = out(['w1'], ['w1']);
  expect(applyOutages(some, outages)).toBe(some);
  expect(listUnresponsive(applyOutages(some, outages), outages)).toEqual([]);
});

test('an endpoint that ends and still answers is better than one on a node that does not', () => {
  const left = applyOutages([make('w1'), make('w2', 'serving')], out(['w1']));
  expect(nodesOf(chooseServing(left))).toEqual(['w2']);
});
