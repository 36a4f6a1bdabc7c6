import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { type EndpointSources, chooseEndpoints, rememberEndpoints } from '../../../../agent/endpoints.ts';
import { type Endpoint, formatEndpoint } from '../../../../lib/net.ts';
import { describe, test, expect } from '@jest/globals';
import type { LocalRoutes } from '../../../../lib/kernel/port.ts';
import { planSourceRoutes, planRouteRemoval } from '../../../../agent/local-clients.ts';

const [first, second, third] = ['10.0.0.11:6443', '10.0.0.12:6443', '10.0.0.13:6443'].map(toEndpoint) as [
  Endpoint,
  Endpoint,
  Endpoint,
];
const vip = toEndpoint('10.0.0.50:6443');
const remedy = "Set --advertise-address of each kube-apiserver to its own host's address";
const seen = { value: [first], seenIn: 'kube-proxy' };

const all: EndpointSources = {
  ...{ family: 'ipv4', api: null, kubeProxy: seen, configured: [second] },
  ...{ remembered: { value: [third], seenIn: 'memory' }, previousEndpoints: [] },
  installed: [toEndpoint('10.0.0.14:6443')],
  vips: [vip],
  addresses: [],
};

const choose = (sources: Partial<EndpointSources>) => {
  const { value, seenIn } = chooseEndpoints({ ...all, ...sources });
  return `${value.map(formatEndpoint).join(' ')} from ${seenIn}`;
};

const named = (seenIn: string, ...value: Endpoint[]) => ({ value, seenIn });
const nobody = { kubeProxy: null, configured: [], remembered: null, installed: [] };

test.each<[string, Partial<EndpointSources>, string]>([
  ['kube-proxy', {}, '10.0.0.11:6443 from kube-proxy'],
  ['--endpoints', { kubeProxy: null }, '10.0.0.12:6443 from --endpoints'],
  ['memory', { kubeProxy: null, configured: [] }, '10.0.0.13:6443 from memory'],
  ["vipnat's own rules", { ...nobody, installed: all.installed }, "10.0.0.14:6443 from vipnat's own rules"],
  ['nobody: it is said where was looked', nobody, " from kube-proxy's rules and --endpoints name none"],
  ['no kube-proxy without any', { kubeProxy: named('kube-proxy') }, '10.0.0.12:6443 from --endpoints'],
  // A loop.
  ['no VIP itself', { kubeProxy: named('kube-proxy', vip, first) }, '10.0.0.11:6443 from kube-proxy'],
  ['nobody who names a VIP only', { kubeProxy: named('kube-proxy', vip) }, '10.0.0.12:6443 from --endpoints'],
  [
    'kube-proxy, sorted and each once, so that rules are the same on every node',
    { kubeProxy: named('kube-proxy', third, first, third) },
    '10.0.0.11:6443 10.0.0.13:6443 from kube-proxy',
  ],
])('the apiservers come from the first source that knows any: %s', (_source, sources, chosen) => {
  expect(choose(sources)).toBe(chosen);
});

const isLoop = '10.0.0.50:6443 is the address of a virtual IP, so vipnat does not use it as an apiserver';

describe('what can be no apiserver of a VIP', () => {
  test.each<[string, string]>([
    ['0.0.0.0:6443', 'an unspecified address'],
    ['255.255.255.255:6443', 'a broadcast address'],
    ['10.0.0.50:8443', 'the address of a virtual IP'],
  ])('%s, and it is named with its source', (text, complaint) => {
    const { value, refused } = chooseEndpoints({
      ...all,
      configured: [],
      kubeProxy: { value: [toEndpoint(text), first], seenIn: 'kube-proxy' },
    });
    expect(value).toEqual([first]);
    const end = complaint === 'the address of a virtual IP' ? `. ${remedy}` : '';
    expect(refused).toEqual([
      `${text} is ${complaint}, so vipnat does not use it as an apiserver (kube-proxy)${end}`,
    ]);
  });

  test.each<[string, Partial<EndpointSources>, string]>([
    [
      'the API and kube-proxy',
      { api: named('the API', vip), kubeProxy: named('kube-proxy', vip) },
      `${isLoop} (the API). ${remedy}`,
    ],
    ['kube-proxy', { kubeProxy: named('kube-proxy', vip) }, `${isLoop} (kube-proxy). ${remedy}`],
    // No master may advertise it any more.
    ['memory', { remembered: named('memory', vip) }, `${isLoop} (memory)`],
  ])('a VIP that is all that is named, by %s: once, with the way out', (_source, sources, sentence) => {
    const { value, seenIn, refused } = chooseEndpoints({ ...all, ...nobody, ...sources });
    expect(value).toEqual([]);
    expect(seenIn).toBe('no source lists a usable one: 10.0.0.50:6443 is the address of a virtual IP');
    expect(refused).toEqual([sentence]);
  });

  test('twenty that cannot be: the reason names three of them', () => {
    const value = Array.from({ length: 20 }, (_, index) => toEndpoint(`127.0.0.${index + 1}:6443`));
    expect(chooseEndpoints({ ...all, ...nobody, kubeProxy: named('kube-proxy', ...value) }).seenIn).toBe(
      'no source lists a usable one: 127.0.0.1:6443 is a loopback address, 127.0.0.2:6443 is a loopback address, ' +
        '127.0.0.3:6443 is a loopback address, and 17 more',
    );
  });

  test('a hundred and one: a source with that many is not one of apiservers, and the next one is asked', () => {
    const many = Array.from({ length: 101 }, (_, index) => ({ ...first, port: index + 1 }));
    const { value, refused } = chooseEndpoints({ ...all, kubeProxy: { value: many, seenIn: 'kube-proxy' } });
    expect(value).toEqual([second]);
    expect(refused).toEqual([
      'the list names 101 apiservers, more than a control plane has. vipnat uses no apiserver of this list (kube-proxy)',
    ]);
  });

  test('one of the other family', () => {
    const sources = { kubeProxy: null, configured: [toEndpoint('[fd00::11]:6443')] };
    expect(choose(sources)).toContain('memory');
    expect(chooseEndpoints({ ...all, ...sources }).refused).toEqual([]);
  });
});

test('what kube-proxy had is kept while it has nothing, and while it has the same in another order', () => {
  const remembered = rememberEndpoints(null, seen);
  expect(remembered).toEqual({ value: [first], seenIn: 'last seen in kube-proxy' });
  expect(rememberEndpoints(remembered, null)).toBe(remembered);
  expect(rememberEndpoints(remembered, named('kube-proxy'))).toBe(remembered);
  const both = rememberEndpoints(remembered, named('there', first, second));
  expect(both?.value).toEqual([first, second]);
  expect(rememberEndpoints(both, named('elsewhere', second, first))).toBe(both);
});

type Address = LocalRoutes['addresses'][number];

const vipAddress = '10.0.0.50';
const wishes = {
  vips: [toEndpoint('10.0.0.50:6443'), toEndpoint('10.0.0.50:443')],
  localClients: 'keep',
} as const;

/** `10.0.0.11/24@eth0`, where that prefix and interface may be left out; with a `!` it leads nowhere. */
function readAddress(text: string): Address {
  const [, no, address = '', prefix = '24', device = 'eth0'] =
    /^(!?)([\da-f.:]+)(?:\/(\d+))?(?:@(\w+))?$/.exec(text) ?? [];
  const family = address.includes(':') ? 'ipv6' : 'ipv4';
  return { family, address, device, prefixLength: Number(prefix), isSource: no === '' };
}

/** Routes as `10.0.0.50 eth0 10.0.0.11`. */
const readRoutes = (texts: readonly string[], isOwn: boolean) =>
  texts.map((text) => {
    const [address = '', device = '', source = ''] = text.split(' ');
    return { address, device, source, isOwn };
  });

/** A host with these addresses, whose kernel has the routes to them, after our own and those of others. */
function see(text: string, own: readonly string[] = [], others: readonly string[] = []): LocalRoutes {
  const addresses = text.split(' ').map(readAddress);
  const kernels = addresses
    .filter(({ family }) => family === 'ipv4')
    .map(({ address, device }) => ({ address, device, source: address, isOwn: false }));
  const routes = [...readRoutes(own, true), ...readRoutes(others, false), ...kernels];
  return { addresses, routes, usualSource: null };
}

const summarize = (found: LocalRoutes, given: Parameters<typeof planSourceRoutes>[1] = wishes) =>
  planSourceRoutes(found, given).map(
    ({ kind, route: { address, device, source } }) => `${kind} ${address} ${device} ${source}`,
  );

const [both, right] = ['10.0.0.11 10.0.0.50/32', '10.0.0.50 eth0 10.0.0.11'];

describe('the source of own connections to a VIP', () => {
  test.each<[string, string, string | null, usualSource?: string]>([
    ['is the one address beside it', both, '10.0.0.11'],
    ['is in its subnet', '192.168.0.1 10.0.0.11 10.0.0.50/32', '10.0.0.11'],
    ['is the first in its subnet', '10.0.0.11 10.0.0.12 10.0.0.50/32', '10.0.0.11'],
    ['has a subnet there: other /32 are virtual', '10.0.0.60/32 192.168.0.1 10.0.0.50/32', '192.168.0.1'],
    ['is on its interface', '172.16.0.1@eth1 192.168.0.1 10.0.0.50/32', '192.168.0.1'],
    ['is the usual for a VIP on lo', '10.244.0.1@cni0 10.0.0.11 10.0.0.50/32@lo', '10.0.0.11', '10.0.0.11'],
    ['is a /32 where a cloud gives no other', '10.0.0.11/32 10.0.0.50/32', '10.0.0.11', '10.0.0.11'],
    ['is none that leads nowhere', '!127.0.0.1/8@lo !169.254.0.1/16 10.0.0.50/32', null],
    ['is none on a host whose only other address is elsewhere', '10.244.0.1@cni0 10.0.0.50/32', null],
    // No route can stand before the kernel's.
    ['is nobody’s matter over IPv6', 'fd00::11/64 fd00::50/128', null],
  ])('%s', (_, addresses, source, usualSource = '') => {
    const found = { ...see(addresses), usualSource: usualSource === '' ? null : usualSource };
    const device = found.addresses.find(({ address }) => address === vipAddress)?.device ?? '';
    const vips = [...wishes.vips, toEndpoint('[fd00::50]:6443')];
    expect(summarize(found, { ...wishes, vips })).toEqual(
      source === null ? [] : [`add ${vipAddress} ${device} ${source}`],
    );
  });

  test('is no other VIP, whichever of them are here', () => {
    const two = { ...wishes, vips: [...wishes.vips, toEndpoint('10.0.0.51:6443')] };
    expect(summarize(see('10.0.0.51 10.0.0.11 10.0.0.50/32'), two)).toEqual([
      `add ${right}`,
      'add 10.0.0.51 eth0 10.0.0.11',
    ]);
  });

  test('is left as it is where the kernel or somebody else names one that is here', () => {
    expect(summarize(see(both, [], [right]))).toEqual([]);
    expect(summarize(see(both, [right], [right]))).toEqual([`remove ${right}`]);
    expect(summarize(see(both, [], [`${vipAddress} eth0 10.0.0.99`]))).toEqual([`add ${right}`]);
  });
});

describe('a route of ours', () => {
  const left = '10.0.0.51 eth0 10.0.0.11';
  const [wrongSource, wrongDevice] = ['10.0.0.50 eth0 10.0.0.99', '10.0.0.50 eth1 10.0.0.11'];

  test.each([
    ['stays as it should be', both, right, []],
    ['goes where its VIP is elsewhere', '10.0.0.11', right, [`remove ${right}`]],
    ['goes where nobody names its VIP any more', '10.0.0.11 10.0.0.51', left, [`remove ${left}`]],
    ['of a wrong source goes after the right', both, wrongSource, [`add ${right}`, `remove ${wrongSource}`]],
    ['at a wrong interface goes after it, too', both, wrongDevice, [`add ${right}`, `remove ${wrongDevice}`]],
  ])('%s', (_, addresses, own, changes) => {
    expect(summarize(see(addresses, [own]))).toEqual(changes);
  });

  test('whose source left goes alone where there is no other: the kernel’s own carries the VIP', () => {
    const changes = planSourceRoutes(see('10.0.0.50/32', [right]), wishes);
    expect(changes).toMatchObject([{ kind: 'remove', reason: '10.0.0.11 is no longer on this host' }]);
  });

  test('is not wanted with --local-clients leave', () => {
    const leave = { ...wishes, localClients: 'leave' } as const;
    expect(summarize(see(both, [right]), leave)).toEqual([`remove ${right}`]);
    expect(summarize(see(both), leave)).toEqual([]);
  });

  test('is removed by cleanup, of one VIP or of all', () => {
    const list = (vips: Parameters<typeof planRouteRemoval>[1]) =>
      planRouteRemoval(see(both, [right, left]), vips).map(({ route: { address } }) => address);
    expect(list(null)).toEqual([vipAddress, '10.0.0.51']);
    expect(list([toEndpoint('10.0.0.51:6443')])).toEqual(['10.0.0.51']);
  });
});

test('the commands are those of iproute2, and name the route that is meant', () => {
  const commands = (found: LocalRoutes) => planSourceRoutes(found, wishes).map(({ command }) => command);
  expect(commands(see(both))).toEqual([
    'ip route prepend local 10.0.0.50 dev eth0 table local proto 118 scope host src 10.0.0.11',
  ]);
  expect(commands(see('10.0.0.11', [right]))).toEqual([
    'ip route del local 10.0.0.50 dev eth0 table local proto 118 scope host src 10.0.0.11',
  ]);
});
