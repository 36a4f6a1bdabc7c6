import { describe } from '@jest/globals';
import { testSevenCases } from './seven-cases.ts';
import { useLab } from './with-lab.ts';

describe.each(['iptables', 'nftables'] as const)('a cluster of IPv6, kube-proxy in %s mode', (proxyMode) => {
  testSevenCases(useLab({ proxyMode, family: 'ipv6' }));
});
