import { describe } from '@jest/globals';
import { isLong, onlyLong } from '../../support/jest/extent.ts';
import { CoexistenceTable, testModeChanges } from '../control-plane/coexistence-table.ts';
import { testFaults } from '../control-plane/fault-table.ts';
import {
  agentKilled,
  allowDrops,
  deathAndReturn,
  firewallRestored,
  kubeProxyRestarted,
  masterCut,
  natFlushed,
} from '../../support/lab/faults.ts';
import { testSevenCases } from '../control-plane/seven-cases.ts';
import { useLab } from '../control-plane/with-lab.ts';

/** What a repair takes on a machine on which a tool needs a second to start. */
const maxDropsMs = 5000;

describe('kube-proxy in ipvs mode, on virtual machines', () => {
  const lab = useLab({ proxyMode: 'ipvs', iptables: 'legacy' });
  testSevenCases(lab);
  // A machine of this kind forwards a fraction of what a real one does.
  const quick = [natFlushed, ...onlyLong(kubeProxyRestarted, firewallRestored, agentKilled)];
  const withDrops = quick.map((fault) => allowDrops(fault, maxDropsMs));
  testFaults(lab, [...withDrops, ...onlyLong(...deathAndReturn, ...masterCut)], 50);
  if (isLong) testModeChanges(lab, 'm1', new CoexistenceTable(lab, 'm1'), ['iptables', 'ipvs']);
});
