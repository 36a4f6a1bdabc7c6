import { describe } from '@jest/globals';
import { testWithApi } from './api-followers.ts';
import { testSevenCases } from './seven-cases.ts';
import { useLab } from './with-lab.ts';

describe.each(['iptables', 'nftables'] as const)('a cluster of IPv6, kube-proxy in %s mode', (proxyMode) => {
  const lab = useLab({ proxyMode, family: 'ipv6' });
  testSevenCases(lab);

  describe('and agents that follow the API', () => {
    testWithApi(lab);
  });
});
