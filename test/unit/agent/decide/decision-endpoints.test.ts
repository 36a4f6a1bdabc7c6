import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { type EndpointSources, chooseEndpoints, rememberEndpoints } from '../../../../agent/endpoints.ts';
import { formatEndpoint } from '../../../../lib/net.ts';
import { describe, test, expect } from '@jest/globals';
import type { LocalRoutes } from '../../../../lib/kernel/port.ts';
import { planSourceRoutes, planRouteRemoval } from '../../../../agent/local-clients.ts';

const [first, second, third] = ['10.0.0.11:6443', '10.0.0.12:6443', '10.0.0.13:6443'].map(toEndpoint) as [
  ReturnType<typeof toEndpoint>,
  ReturnType<typeof toEndpoint>,
  ReturnType<typeof toEndpoint>,
];
const vip = toEndpoint('10.0.0.50:6443');
const remedy = "Set --advertise-address of each kube-apiserver to its own host's address";
const seen = { value: [first], seenIn: 'kube-proxy' };

const all: EndpointSources = {
  family: 'ipv4',
  api: null,
  kubeProxy: seen,
  configured: [second],
  remembered: { value: [third], seenIn: 'memory' },
  previousEndpoints: [],
  installed: [toEndpoint('10.0.0.14:6443')],
  vips: [vip],
  addresses: [],
};

const choose = (sources: Partial<EndpointSources>) => {
  const { value, seenIn } = chooseEndpoints({ ...all, ...sources });
  return `${value.map(formatEndpoint).join(' ')} from ${seenIn}`;
};

describe('the apiservers come from the first source that knows any (ADR 3)', () => {
  test.each<[string, Partial<EndpointSources>, string]>([
    ['kube-proxy', {}, '10.0.0.11:6443 from kube-proxy'],
    ['--endpoints', { kubeProxy: null }, '10.0.0.12:6443 from --endpoints'],
    ['memory', { kubeProxy: null, configured: [] }, '10.0.0.13:6443 from memory'],
    [
      "vipnat's own rules",
      { kubeProxy: null, configured: [], remembered: null },
      "10.0.0.14:6443 from vipnat's own rules",
    ],
  ])('%s', (_source, sources, chosen) => {
    expect(choose(sources)).toBe(chosen);
  });

  test('a kube-proxy without endpoints does not count', () => {
    expect(choose({ kubeProxy: { value: [], seenIn: 'kube-proxy' } })).toContain('--endpoints');
  });

  test('nobody knows any: the empty answer says where was looked', () => {
    expect(choose({ kubeProxy: null, configured: [], remembered: null, installed: [] })).toBe(
      " from kube-proxy's rules and --endpoints name none",
    );
  });
});

describe('what can be no apiserver of a VIP', () => {
  test('a VIP itself: sending its connections there would be a loop', () => {
    expect(choose({ kubeProxy: { value: [vip, first], seenIn: 'kube-proxy' } })).toBe(
      '10.0.0.11:6443 from kube-proxy',
    );
    expect(choose({ kubeProxy: { value: [vip], seenIn: 'kube-proxy' } })).toContain('--endpoints');
  });

  test.each<[string, string]>([
    ['0.0.0.0:6443', 'an unspecified address'],
    ['127.0.0.1:6443', 'a loopback address'],
    ['169.254.0.1:6443', 'a link-local address'],
    ['224.0.0.1:6443', 'a multicast address'],
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
      { api: { value: [vip], seenIn: 'the API' }, kubeProxy: { value: [vip], seenIn: 'kube-proxy' } },
      `10.0.0.50:6443 is the address of a virtual IP, so vipnat does not use it as an apiserver (the API). ${remedy}`,
    ],
    [
      'kube-proxy',
      { kubeProxy: { value: [vip], seenIn: 'kube-proxy' } },
      `10.0.0.50:6443 is the address of a virtual IP, so vipnat does not use it as an apiserver (kube-proxy). ${remedy}`,
    ],
    [
      'memory, where no master may advertise it any more',
      { remembered: { value: [vip], seenIn: 'memory' } },
      '10.0.0.50:6443 is the address of a virtual IP, so vipnat does not use it as an apiserver (memory)',
    ],
  ])('a VIP that is all that is named, by %s: once, with the way out', (_source, sources, sentence) => {
    const nobody = { kubeProxy: null, configured: [], remembered: null, installed: [] };
    const { value, seenIn, refused } = chooseEndpoints({ ...all, ...nobody, ...sources });
    expect(value).toEqual([]);
    expect(seenIn).toBe('no source lists a usable one: 10.0.0.50:6443 is the address of a virtual IP');
    expect(refused).toEqual([sentence]);
  });

  test('twenty that cannot be: the reason names three of them', () => {
    const value = Array.from({ length: 20 }, (_, index) => toEndpoint(`127.0.0.${index + 1}:6443`));
    const sources = {
      kubeProxy: { value, seenIn: 'kube-proxy' },
      configured: [],
      remembered: null,
      installed: [],
    };
    expect(chooseEndpoints({ ...all, ...sources }).seenIn).toBe(
      'no source lists a usable one: 127.0.0.1:6443 is a loopback address, 127.0.0.2:6443 is a loopback address, ' +
        '127.0.0.3:6443 is a loopback address, and 17 more',
    );
  });

  test('ten thousand: a source with that many is not one of apiservers, and the next one is asked', () => {
    const many = Array.from({ length: 10_000 }, (_, index) => ({ ...first, port: index + 1 }));
    const { value, refused } = chooseEndpoints({ ...all, kubeProxy: { value: many, seenIn: 'kube-proxy' } });
    expect(value).toEqual([second]);
    expect(refused).toEqual([
      'the list names 10000 apiservers, more than a control plane has. vipnat uses no apiserver of this list (kube-proxy)',
    ]);
  });

  test('one of the other family', () => {
    const sources = { kubeProxy: null, configured: [toEndpoint('[fd00::11]:6443')] };
    expect(choose(sources)).toContain('memory');
    expect(chooseEndpoints({ ...all, ...sources }).refused).toEqual([]);
  });
});

test('the list is sorted and has each apiserver once, so that rules are the same on every node', () => {
  expect(choose({ kubeProxy: { value: [third, first, third], seenIn: 'kube-proxy' } })).toBe(
    '10.0.0.11:6443 10.0.0.13:6443 from kube-proxy',
  );
});

describe('remembering', () => {
  test('keeps what kube-proxy had while it has nothing', () => {
    const remembered = rememberEndpoints(null, seen);
    expect(remembered).toEqual({ value: [first], seenIn: 'last seen in kube-proxy' });
    expect(rememberEndpoints(remembered, null)).toBe(remembered);
    expect(rememberEndpoints(remembered, { value: [], seenIn: 'kube-proxy' })).toBe(remembered);
  });

  test('follows kube-proxy', () => {
    const remembered = rememberEndpoints(null, seen);
    expect(rememberEndpoints(remembered, { value: [second], seenIn: 'kube-proxy' })?.value).toEqual([second]);
  });

  test('changes nothing when kube-proxy still has the same, in whatever order', () => {
    const remembered = rememberEndpoints(null, { value: [first, second], seenIn: 'there' });
    expect(rememberEndpoints(remembered, { value: [second, first], seenIn: 'elsewhere' })).toBe(remembered);
  });
});

type Address = LocalRoutes['addresses'][number];

const vipAddress = '10.0.0.50';
const wishes = {
  vips: [toEndpoint('10.0.0.50:6443'), toEndpoint('10.0.0.50:443')],
  localClients: 'keep',
} as const;

const has = (address: string, prefixLength = 24, device = 'eth0', isSource = true): Address => ({
  family: address.includes(':') ? 'ipv6' : 'ipv4',
  address,
  device,
  prefixLength,
  isSource,
});

/** A host with these addresses, whose kernel has the routes to them, after those of others. */
function see(
  addresses: readonly Address[],
  before: LocalRoutes['routes'] = [],
  usualSource: string | null = null,
) {
  const kernels = addresses
    .filter(({ family }) => family === 'ipv4')
    .map(({ address, device }) => ({ address, device, source: address, isOwn: false }));
  return { addresses, routes: [...before, ...kernels], usualSource };
}

const ours = (source: string, address = vipAddress, device = 'eth0') => ({
  address,
  device,
  source,
  isOwn: true,
});
const summarize = (seen: LocalRoutes, given: Parameters<typeof planSourceRoutes>[1] = wishes) =>
  planSourceRoutes(seen, given).map(
    ({ kind, route: { address, device, source } }) => `${kind} ${address} ${device} ${source}`,
  );

const held = has(vipAddress, 32);

describe('the source of own connections to a VIP', () => {
  test.each<[string, LocalRoutes, string | null]>([
    ['is the one address beside it', see([has('10.0.0.11'), held]), '10.0.0.11'],
    ['is in its subnet', see([has('192.168.0.1'), has('10.0.0.11'), held]), '10.0.0.11'],
    ['is the first in its subnet', see([has('10.0.0.11'), has('10.0.0.12'), held]), '10.0.0.11'],
    [
      'has a subnet there: other /32 are virtual',
      see([has('10.0.0.60', 32), has('192.168.0.1'), held]),
      '192.168.0.1',
    ],
    ['is on its interface', see([has('172.16.0.1', 24, 'eth1'), has('192.168.0.1'), held]), '192.168.0.1'],
    [
      'is the usual one, where the VIP is on lo',
      see([has('10.244.0.1', 24, 'cni0'), has('10.0.0.11'), has(vipAddress, 32, 'lo')], [], '10.0.0.11'),
      '10.0.0.11',
    ],
    [
      'is a /32 where a cloud gives no other',
      see([has('10.0.0.11', 32), held], [], '10.0.0.11'),
      '10.0.0.11',
    ],
    [
      'is none that leads nowhere',
      see([has('127.0.0.1', 8, 'lo', false), has('169.254.0.1', 16, 'eth0', false), held]),
      null,
    ],
    [
      'is none on a host whose only other address is elsewhere',
      see([has('10.244.0.1', 24, 'cni0'), held]),
      null,
    ],
  ])('%s', (_, seen, source) => {
    const device = seen.addresses.find(({ address }) => address === vipAddress)?.device ?? '';
    expect(summarize(seen)).toEqual(source === null ? [] : [`add ${vipAddress} ${device} ${source}`]);
  });

  test('is no other VIP, whichever of them are here', () => {
    const two = { ...wishes, vips: [...wishes.vips, toEndpoint('10.0.0.51:6443')] };
    expect(summarize(see([has('10.0.0.51'), has('10.0.0.11'), held]), two)).toEqual([
      `add ${vipAddress} eth0 10.0.0.11`,
      'add 10.0.0.51 eth0 10.0.0.11',
    ]);
  });

  test('is left as it is where the kernel or somebody else names one that is here', () => {
    const byKernel = { address: vipAddress, device: 'eth0', source: '10.0.0.11', isOwn: false };
    expect(summarize(see([has('10.0.0.11'), held], [byKernel]))).toEqual([]);
    expect(summarize(see([has('10.0.0.11'), held], [ours('10.0.0.11'), byKernel]))).toEqual([
      `remove ${vipAddress} eth0 10.0.0.11`,
    ]);
    const gone = { ...byKernel, source: '10.0.0.99' };
    expect(summarize(see([has('10.0.0.11'), held], [gone]))).toEqual([`add ${vipAddress} eth0 10.0.0.11`]);
  });

  test('is nobody’s matter over IPv6, where no route can stand before the kernel’s', () => {
    const vips = [toEndpoint('[fd00::50]:6443')];
    expect(summarize(see([has('fd00::11', 64), has('fd00::50', 128)]), { ...wishes, vips })).toEqual([]);
  });
});

describe('a route of ours', () => {
  const host = [has('10.0.0.11'), held];

  test('that is as it should be stays', () => {
    expect(summarize(see(host, [ours('10.0.0.11')]))).toEqual([]);
  });

  test.each<[string, LocalRoutes]>([
    ['whose VIP is elsewhere', see([has('10.0.0.11')], [ours('10.0.0.11')])],
    [
      'of a VIP that nobody names any more',
      see([has('10.0.0.11'), has('10.0.0.51')], [ours('10.0.0.11', '10.0.0.51')]),
    ],
  ])('%s goes', (_, seen) => {
    expect(planSourceRoutes(seen, wishes).map(({ kind }) => kind)).toEqual(['remove']);
  });

  test('whose source or interface is wrong goes after the right one came', () => {
    const right = `add ${vipAddress} eth0 10.0.0.11`;
    expect(summarize(see(host, [ours('10.0.0.99')]))).toEqual([right, `remove ${vipAddress} eth0 10.0.0.99`]);
    expect(summarize(see(host, [ours('10.0.0.11', vipAddress, 'eth1')]))).toEqual([
      right,
      `remove ${vipAddress} eth1 10.0.0.11`,
    ]);
  });

  test('whose source left goes alone where there is no other: the kernel’s own carries the VIP', () => {
    const [change, ...more] = planSourceRoutes(see([held], [ours('10.0.0.11')]), wishes);
    expect(more).toEqual([]);
    expect(change).toMatchObject({ kind: 'remove', reason: '10.0.0.11 is no longer on this host' });
  });

  test('is not wanted with --local-clients leave', () => {
    const leave = { ...wishes, localClients: 'leave' } as const;
    expect(summarize(see(host, [ours('10.0.0.11')]), leave)).toEqual([`remove ${vipAddress} eth0 10.0.0.11`]);
    expect(summarize(see(host), leave)).toEqual([]);
  });

  test('is removed by cleanup, of one VIP or of all', () => {
    const seen = see(host, [ours('10.0.0.11'), ours('10.0.0.11', '10.0.0.51')]);
    const list = (vips: Parameters<typeof planRouteRemoval>[1]) =>
      planRouteRemoval(seen, vips).map(({ route: { address } }) => address);
    expect(list(null)).toEqual([vipAddress, '10.0.0.51']);
    expect(list([toEndpoint('10.0.0.51:6443')])).toEqual(['10.0.0.51']);
  });
});

test('the commands are those of iproute2, and name the route that is meant', () => {
  const commands = (seen: LocalRoutes) => planSourceRoutes(seen, wishes).map(({ command }) => command);
  expect(commands(see([has('10.0.0.11'), held]))).toEqual([
    'ip route prepend local 10.0.0.50 dev eth0 table local proto 118 scope host src 10.0.0.11',
  ]);
  expect(commands(see([has('10.0.0.11')], [ours('10.0.0.11')]))).toEqual([
    'ip route del local 10.0.0.50 dev eth0 table local proto 118 scope host src 10.0.0.11',
  ]);
});
