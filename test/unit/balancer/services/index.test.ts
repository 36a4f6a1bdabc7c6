import type { KubeObject } from '../../../support/kube-api/kube-store.ts';
import { services, endpointSlices } from '../../../../lib/api/service.ts';
import {
  makeLoadBalancer,
  makeEndpoints,
  makeEarlyEndpoints,
  makeVirtualIp,
} from '../../../support/kube-api/service-objects.ts';
import { earlySlices } from '../../../../lib/api/endpoints.ts';
import { virtualIps } from '../../../../lib/api/vipnat.ts';
import { ServiceIndex } from '../../../../balancer/services/index.ts';
import type { FollowedNode, NodeEnding } from '../../../../lib/api/node.ts';
import { type Steps, testSteps, toChecks } from '../../steps.ts';
import { beforeEach, test, expect, describe } from '@jest/globals';

const version = ({ metadata, ...rest }: KubeObject) => ({
  ...rest,
  metadata: { ...metadata, resourceVersion: '1' },
});
const service = (name: string) => services.schema.parse(version(makeLoadBalancer(name, [{ port: 80 }])));
const slice = (name: string, hints?: object, nodeName = 'n1', zone = 'a') => {
  const endpoint = { addresses: ['10.244.1.2'], nodeName, zone, ...(hints === undefined ? {} : { hints }) };
  return endpointSlices.schema.parse(version(makeEndpoints(name, [{ port: 80 }], [endpoint])));
};
const vip = (address: string, names: readonly string[]) =>
  virtualIps.schema.parse(version(makeVirtualIp(address, names)));
const come = <T>(key: string, after: T) => [{ key, before: null, after }];
const go = <T>(key: string, before: T) => [{ key, before, after: null }];

let index: ServiceIndex;

beforeEach(() => {
  index = new ServiceIndex('n1');
  index.takeServices(come('default/web', service('web')));
  index.takeSlices(come('default/web-ipv4', slice('web')));
  index.takeVirtualIps(come('10.77.0.60', vip('10.77.0.60', ['web'])));
});

test('a Service is balanced at the addresses that VirtualIPs give it', () => {
  index.takeVirtualIps(come('fd77--60', vip('fd77::60', ['web'])));
  expect(index.takeChanged(false)).toEqual(['default/web']);
  expect(index.find('default/web')).toMatchObject({
    addresses: { ipv4: ['10.77.0.60'], ipv6: ['fd77::60'] },
    slices: [{ addressType: 'IPv4' }],
  });
  expect(index.vips).toEqual(new Set(['10.77.0.60', 'fd77::60']));
  expect(index.takeChanged(false)).toEqual([]);
});

test('a Service without an address, of another type, or of another UID is not balanced', () => {
  index.takeServices(come('default/other', service('other')));
  expect(index.find('default/other')).toBeNull();
  const other = { ...service('web'), metadata: { ...service('web').metadata, uid: 'another' } };
  index.takeServices([{ key: 'default/web', before: service('web'), after: other }]);
  expect(index.find('default/web')?.addresses).toEqual({ ipv4: [], ipv6: [] });
  const plain = { ...service('web'), spec: { ...service('web').spec, type: 'ClusterIP' } };
  index.takeServices([{ key: 'default/web', before: other, after: plain }]);
  expect(index.find('default/web')).toBeNull();
});

test('an address that is taken away is not balanced any more, and no early word is needed', () => {
  const early = earlySlices.schema.parse(version(makeEarlyEndpoints('web', [{ port: 80 }], ['10.244.3.3'])));
  index.early.follow();
  index.takeEarlySlices(come('default/web-early', early));
  index.find('default/web');
  expect(index.early.dependent).toEqual(['default/web']);
  index.takeChanged(false);
  index.takeVirtualIps([
    { key: '10.77.0.60', before: vip('10.77.0.60', ['web']), after: vip('10.77.0.60', []) },
  ]);
  expect(index.takeChanged(false)).toEqual(['default/web']);
  expect([index.find('default/web'), index.early.dependent]).toEqual([null, []]);
  index.takeVirtualIps(go('10.77.0.60', vip('10.77.0.60', [])));
  expect(index.vips.size).toBe(0);
});

test('an EndpointSlice changes its own Service only', () => {
  index.takeChanged(false);
  index.takeSlices(come('default/other-ipv4', slice('other')));
  expect(index.takeChanged(false)).toEqual(['default/other']);
  index.takeSlices(go('default/web-ipv4', slice('web')));
  expect(index.takeChanged(false)).toEqual(['default/web']);
  // Nobody has said that its pod ended.
  expect(index.find('default/web')?.slices).toMatchObject([
    { endpoints: [{ conditions: { ready: false } }] },
  ]);
  index.left.drop(() => true);
  expect(index.find('default/web')?.slices).toEqual([]);
});

test.each([
  ['that started again at another address', '10.244.1.9 7 80', '', []],
  ['on a node that does not answer', '10.244.1.9 8 80', 'n1', []],
  ['that its Service selects no more', '10.244.1.9 8 80', 'n2', ['10.244.1.2']],
  ['whose Service has another port', '10.244.1.2 7 81', '', ['10.244.1.2']],
])('open connections stay or go, to a pod %s', (_, now, out, left) => {
  index.left.isOut = (node) => node === out;
  const as = (text: string) => {
    const [[address = '', pod, port], its] = [text.split(' '), slice('web')];
    const targetRef = Number(pod);
    const endpoints = its.endpoints?.map((one) => ({ ...one, addresses: [address], targetRef }));
    return { ...its, endpoints, ports: its.ports?.map((one) => ({ ...one, port: Number(port) })) };
  };
  const before = as('10.244.1.2 7 80');
  index.takeSlices(come('default/web-ipv4', before));
  index.takeSlices([{ key: 'default/web-ipv4', before, after: as(now) }]);
  expect(index.left.list('default/web').flatMap(({ endpoints }) => endpoints?.[0]?.addresses)).toEqual(left);
});

/** `n1 a` is a Node in zone a, `n2 a shuts down silent` one that has also fallen silent, `n1 -` none. `news` checks the Services that the last one concerns. */
function createNodeSteps(): Steps {
  index.takeServices(come('default/near', service('near')));
  index.takeSlices(come('default/near-ipv4', slice('near', { forZones: [{ name: 'a' }] }, 'n2')));
  index.takeVirtualIps(come('10.77.0.61', vip('10.77.0.61', ['near'])));
  const nodes = new Map<string, FollowedNode | null>();
  let isNews = false;
  const take = (name: string) => (text: string) => {
    const [, zone = '', ending = '', silent] = /^(\S+) ?(.*?)( ?silent)?$/.exec(text) ?? [];
    const state = { ending: (ending || null) as NodeEnding | null, isUnresponsive: silent !== undefined };
    const after = zone === '-' ? null : { metadata: { name, resourceVersion: '1' }, zone, ...state };
    index.takeChanged(false);
    const before = nodes.get(name) ?? null;
    nodes.set(name, after);
    const all = [...nodes.values()].filter((one) => one !== null);
    isNews = index.takeNodes([{ key: name, before, after }], all);
  };
  return {
    ...{ n1: take('n1'), n2: take('n2'), n3: take('n3') },
    ...toChecks({
      news: (who) => [[isNews, index.takeChanged(false).join()], who === '-' ? [false, ''] : [true, who]],
      zone: (zone) => [index.nodes.zone ?? '-', zone],
      kept: (who) => [[...index.nodes.kept].join(' ') || '-', who],
      ends: (who) => [[...index.nodes.endings].map((one) => one.join(' ')).join() || '-', who],
    }),
  };
}

describe('Nodes', () => {
  testSteps(createNodeSteps, {
    "this node's zone is that of its Node, and concerns Services with hints for zones":
      'zone -; n1 a; zone a; news default/near; n1 b; zone b; news default/near; n1 -; zone -; news default/near',
    'more than half without a word to Kubernetes are kept, and their Services are concerned':
      'n1 a; n3 a; n2 a silent; kept -; news -; n3 a silent; kept n3 n2; news default/near; n2 a; kept -; news default/near',
    'one that ends concerns Services with pods there, when it begins and when it is over':
      'n2 a; n2 a shuts down; ends n2 shuts down; news default/near; n2 a; ends -; news default/near; ' +
      'n2 a shuts down; n2 -; ends -; news default/near',
    'one that is silent after it said that it shuts down is off; any other silence says nothing':
      'n1 a; n3 a; n2 a shuts down; n2 a silent; news -; ends n2 shuts down; n2 a; news default/near; ends -; n2 a silent; news -; ' +
      'ends -; n2 a is in maintenance silent; ends n2 is in maintenance; n2 a silent; news default/near; ends -',
    'heartbeats, zones of others, and nodes without pods of Services concern nobody':
      'n1 a; n1 a; news -; n3 a shuts down; news -; n2 a; news -; n2 b; news -',
  });

  test('what an endpoint says of its zone is no word on the node: it may be older', () => {
    index.takeSlices(come('default/other-ipv4', slice('other', undefined, 'n1', 'b')));
    expect(index.nodes.zone).toBeNull();
  });
});

test("a change of this host's addresses concerns who has an endpoint there, or asks where clients come from", () => {
  const spec = { ...service('choosy').spec, loadBalancerSourceRanges: ['10.0.0.0/8'] };
  for (const name of ['far', 'choosy']) {
    index.takeServices(come(`default/${name}`, name === 'far' ? service(name) : { ...service(name), spec }));
    index.takeVirtualIps(come(`10.77.0.7${name.length}`, vip(`10.77.0.7${name.length}`, [name])));
  }
  expect(index.listConcerned(new Set(['10.244.1.2']))).toEqual(['default/web', 'default/choosy']);
  expect(index.listConcerned(new Set(['10.244.1.3']))).toEqual(['default/choosy']);
});

describe('a port that two Services of one address have', () => {
  const key = '10.77.0.60 TCP 80';
  const find = (name: string) => index.find(`default/${name}`)?.taken?.get(key);

  beforeEach(() => {
    index.takeServices(come('default/a', service('a')));
    index.takeServices(come('default/b', service('b')));
    index.takeVirtualIps(go('10.77.0.60', vip('10.77.0.60', ['web'])));
    index.takeVirtualIps(come('10.77.0.60', vip('10.77.0.60', ['b', 'a'])));
    index.takeChanged(false);
  });

  test('is of the one that has had the address for longer, whatever was heard first', () => {
    expect([find('b'), find('a')]).toEqual([undefined, 'default/b']);
  });

  test.each([
    ['is deleted', null],
    [
      'has another port',
      { ...service('b'), spec: { ...service('b').spec, ports: [{ port: 81, protocol: 'TCP' }] } },
    ],
    ['is a new one of its name', { ...service('b'), metadata: { ...service('b').metadata, uid: 'another' } }],
    ['has another type', { ...service('b'), spec: { ...service('b').spec, type: 'ClusterIP' } }],
  ] as const)('is of the next one when the first one %s', (_, after) => {
    index.takeServices([{ key: 'default/b', before: service('b'), after: after as never }]);
    expect([find('a'), index.takeChanged(false).toSorted()]).toEqual([undefined, ['default/a', 'default/b']]);
  });

  test('is of one of them alone while the first one has been made anew, and its former self is not struck off yet', () => {
    const before = vip('10.77.0.60', ['b', 'a']);
    const anew = { ...service('b'), metadata: { ...service('b').metadata, uid: 'another' } };
    index.takeServices([{ key: 'default/b', before: service('b'), after: anew }]);
    const services = [...before.spec.services, { namespace: 'default', name: 'b', uid: 'another' }];
    index.takeVirtualIps([
      { key: '10.77.0.60', before, after: { ...before, spec: { ...before.spec, services } } },
    ]);
    expect([find('b'), find('a')]).toEqual(['default/a', undefined]);
  });

  test('does not have others looked at again while the first one keeps it', () => {
    index.takeServices([{ key: 'default/b', before: service('b'), after: service('b') }]);
    expect(index.takeChanged(false)).toEqual(['default/b']);
  });
});

test('the first Service of an address guards it for all that share it, but for the ports that they name', () => {
  const both = vip('10.77.0.60', ['web', 'other']);
  index.takeServices(come('default/other', service('other')));
  index.takeVirtualIps([{ key: '10.77.0.60', before: vip('10.77.0.60', ['web']), after: both }]);
  const listGuarded = () =>
    ['default/web', 'default/other'].map((key) => [...(index.find(key)?.guarded ?? [])]);
  expect(listGuarded()).toEqual([[['10.77.0.60', ['6 . 80']]], []]);
  index.takeChanged(false);
  const spec = { ...service('other').spec, ports: [{ port: 53, protocol: 'UDP' }] };
  index.takeServices([
    { key: 'default/other', before: service('other'), after: { ...service('other'), spec } as never },
  ]);
  expect(listGuarded()).toEqual([[['10.77.0.60', ['17 . 53', '6 . 80']]], []]);
  expect([...index.takeChanged(false)].sort()).toEqual(['default/other', 'default/web']);
});
