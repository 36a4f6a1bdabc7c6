import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { type EndpointSources, chooseEndpoints, rememberEndpoints } from '../../../../agent/endpoints.ts';
import { formatEndpoint } from '../../../../lib/net.ts';
import { describe, test, expect } from '@jest/globals';

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
