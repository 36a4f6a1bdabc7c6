import { describe } from '@jest/globals';
import { testSevenCases } from './seven-cases.ts';
import { useLab } from './with-lab.ts';

describe('kube-proxy in iptables mode, legacy backend', () => {
  const lab = useLab({ proxyMode: 'iptables', iptables: 'legacy' });
  testSevenCases(lab);
});
