import { describe, test, expect } from '@jest/globals';
import { defaultAgentArguments } from '../../../../tools/lab/components/agent.ts';
import { defaultOptions } from '../../../../tools/lab/settings/options.ts';

describe('what the agents of a lab are given by themselves', () => {
  test.each(['iptables', 'ipvs', 'nftables'] as const)('nothing where kube-proxy tells: %s', (proxyMode) => {
    expect(defaultAgentArguments({ ...defaultOptions, proxyMode })).toEqual([]);
  });

  test.each([
    ['ipv4', '10.77.0.11:6443,10.77.0.12:6443,10.77.0.13:6443'],
    ['ipv6', '[fd77::11]:6443,[fd77::12]:6443,[fd77::13]:6443'],
  ] as const)('the apiservers where there is no kube-proxy: %s', (family, endpoints) => {
    const options = { ...defaultOptions, proxyMode: 'none', family } as const;
    expect(defaultAgentArguments(options)).toEqual(['--endpoints', endpoints]);
  });
});
