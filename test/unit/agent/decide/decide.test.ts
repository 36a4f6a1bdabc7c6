import { describe, expect, test } from '@jest/globals';
import { decide, isAgreeing, type VipFacts } from '../../../../agent/decide/decide.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';

const vip = toEndpoint('10.0.0.50:6443');
const three = ['10.0.0.11:6443', '10.0.0.12:6443', '10.0.0.13:6443'].map(toEndpoint);
const two = three.slice(0, 2);
const path = { clusterIp: '10.96.0.1', backends: three, seenIn: 'nat KUBE-SERVICES (iptables-nft)' };

const iptables: VipFacts = {
  vip,
  mode: 'auto',
  proxyMode: { value: 'iptables', seenIn: 'asked' },
  serviceChain: path,
  virtualServer: null,
  closedSwitch: null,
  serviceChainProblem: null,
  virtualServerProblem: null,
  unwanted: null,
  usable: { value: three, seenIn: 'kube-proxy', isFailOpen: false },
  affinitySeconds: null,
  apiSource: null,
  agreedLooks: 1,
  wasBypassing: false,
};
const ipvs: VipFacts = {
  ...iptables,
  proxyMode: { value: 'ipvs', seenIn: 'asked' },
  serviceChain: null,
  virtualServer: path,
};
const unwanted = { value: '-j REJECT', seenIn: 'filter KUBE-SERVICES' };

describe('auto', () => {
  test.each<[string, VipFacts, string]>([
    ['kube-proxy in iptables mode has the usable apiservers', iptables, 'service-chain'],
    ['kube-proxy in ipvs mode has the usable apiservers', ipvs, 'cluster-ip'],
    [
      'kube-proxy lists an apiserver that is not usable',
      { ...iptables, usable: { value: two, seenIn: 'probes', isFailOpen: false } },
      'direct',
    ],
    [
      'kube-proxy lacks an apiserver that is usable',
      { ...ipvs, virtualServer: { ...path, backends: two } },
      'direct',
    ],
    ['the live edge is gone', { ...iptables, serviceChain: null }, 'direct'],
    ['the virtual server is gone', { ...ipvs, virtualServer: null }, 'direct'],
    ['kube-proxy wants its chain gone', { ...iptables, unwanted }, 'direct'],
    [
      'kube-proxy runs in nftables mode',
      { ...iptables, proxyMode: { value: 'nftables', seenIn: 'asked' } },
      'direct',
    ],
    [
      'there is no kube-proxy',
      { ...iptables, serviceChain: null, proxyMode: { value: 'none', seenIn: 'nothing' } },
      'direct',
    ],
    [
      'no apiserver is known',
      { ...iptables, usable: { value: [], seenIn: 'nowhere', isFailOpen: false } },
      'passthrough',
    ],
  ])('when %s', (_when, facts, way) => {
    expect(decide(facts).way).toBe(way);
  });

  test('a leftover virtual server does not matter in iptables mode', () => {
    const facts = { ...iptables, serviceChain: null, virtualServer: path };
    expect(decide(facts).way).toBe('direct');
  });
});

test('when no apiserver answers, all are kept, and kube-proxy may delete its chain', () => {
  const usable = { value: three, seenIn: 'kube-proxy', isFailOpen: true };
  expect(decide({ ...iptables, usable })).toMatchObject({ way: 'direct', isBypass: true, backends: three });
});

describe('the bypass', () => {
  const bypassing = { ...iptables, wasBypassing: true };

  test('is entered at once', () => {
    const decision = decide({
      ...iptables,
      usable: { value: two, seenIn: 'probes', isFailOpen: false },
      agreedLooks: 0,
    });
    expect(decision).toMatchObject({ way: 'direct', isBypass: true, backends: two });
  });

  test('is left after two equal looks', () => {
    expect(decide({ ...bypassing, agreedLooks: 1 })).toMatchObject({ way: 'direct', isBypass: true });
    expect(decide({ ...bypassing, agreedLooks: 2 })).toMatchObject({ way: 'service-chain', isBypass: false });
  });

  test('counts a look as equal only in the mode that kube-proxy runs in', () => {
    expect(isAgreeing(iptables)).toBe(true);
    expect(isAgreeing({ ...ipvs, virtualServer: null, serviceChain: path })).toBe(false);
    expect(isAgreeing({ ...iptables, usable: { value: two, seenIn: 'probes', isFailOpen: false } })).toBe(
      false,
    );
  });
});

describe('a forced way', () => {
  test('is that way even if kube-proxy disagrees with us', () => {
    const facts: VipFacts = {
      ...iptables,
      mode: 'service-chain',
      usable: { value: two, seenIn: 'probes', isFailOpen: false },
    };
    expect(decide(facts)).toMatchObject({ way: 'service-chain', backends: three });
  });

  test('that cannot be had leaves the VIP to its holder', () => {
    expect(decide({ ...iptables, mode: 'service-chain', serviceChain: null }).way).toBe('passthrough');
    expect(decide({ ...iptables, mode: 'service-chain', unwanted }).way).toBe('passthrough');
    expect(decide({ ...iptables, mode: 'cluster-ip' }).way).toBe('passthrough');
  });

  test('direct needs no kube-proxy, and some apiserver', () => {
    expect(decide({ ...iptables, mode: 'direct' }).way).toBe('direct');
    expect(
      decide({ ...iptables, mode: 'direct', usable: { value: [], seenIn: '', isFailOpen: false } }).way,
    ).toBe('passthrough');
  });
});

test('passthrough names no backends, and every decision has a reason', () => {
  const decision = decide({
    ...iptables,
    usable: { value: [], seenIn: 'nothing was found', isFailOpen: false },
  });
  expect(decision.backends).toEqual([]);
  expect(decision.reason).toContain('nothing was found');
});
