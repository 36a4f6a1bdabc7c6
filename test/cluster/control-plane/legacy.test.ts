import { describe } from '@jest/globals';
import { testFaults } from './fault-table.ts';
import { quickFaults } from '../../support/lab/faults.ts';
import { testSevenCases } from './seven-cases.ts';
import { useLab } from './with-lab.ts';

describe('kube-proxy in iptables mode, legacy backend', () => {
  const lab = useLab({ proxyMode: 'iptables', iptables: 'legacy' });
  testSevenCases(lab);
  testFaults(lab, quickFaults);
});
