import { describe } from '@jest/globals';
import { testFaults } from './fault-table.ts';
import { faults } from './faults.ts';
import { testSevenCases } from './seven-cases.ts';
import { useLab } from './with-lab.ts';

describe('kube-proxy in iptables mode', () => {
  const lab = useLab({ proxyMode: 'iptables', iptables: 'nft' });
  testSevenCases(lab);
  testFaults(lab, faults);
});
