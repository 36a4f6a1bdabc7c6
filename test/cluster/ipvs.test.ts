import { describe } from '@jest/globals';
import { testSevenCases } from './seven-cases.ts';
import { useLab } from './with-lab.ts';

describe('kube-proxy in ipvs mode, on virtual machines', () => {
  const lab = useLab({ proxyMode: 'ipvs', iptables: 'legacy' });
  testSevenCases(lab);
});
