import { describe } from '@jest/globals';
import { testFaults } from './fault-table.ts';
import { quickFaults } from './faults.ts';
import { testSevenCases } from './seven-cases.ts';
import { useLab } from './with-lab.ts';

describe('kube-proxy in nftables mode', () => {
  const lab = useLab({ proxyMode: 'nftables' });
  testSevenCases(lab);
  testFaults(lab, quickFaults);
});
