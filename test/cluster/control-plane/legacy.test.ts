import { describe } from '@jest/globals';
import { onlyLong } from '../../support/jest/extent.ts';
import { testFaults } from './fault-table.ts';
import { agentKilled, firewallRestored, kubeProxyRestarted, natFlushed } from '../../support/lab/faults.ts';
import { testSevenCases } from './seven-cases.ts';
import { useLab } from './with-lab.ts';

describe('kube-proxy in iptables mode, legacy backend', () => {
  const lab = useLab({ proxyMode: 'iptables', iptables: 'legacy' });
  testSevenCases(lab);
  testFaults(lab, [natFlushed, firewallRestored, ...onlyLong(kubeProxyRestarted, agentKilled)]);
});
