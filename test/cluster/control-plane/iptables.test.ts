import { describe } from '@jest/globals';
import { testFaults } from './fault-table.ts';
import { deathAndReturn, kubeProxyStopped, quickFaults } from '../../support/lab/faults.ts';
import { testSevenCases } from './seven-cases.ts';
import { useLab } from './with-lab.ts';

describe('kube-proxy in iptables mode', () => {
  // As an apiserver should be set that is restarted while it serves.
  const lab = useLab({ proxyMode: 'iptables', iptables: 'nft', shutdownDelaySeconds: 5 });
  testSevenCases(lab);
  testFaults(lab, [...quickFaults, kubeProxyStopped, ...deathAndReturn]);
});
