import { describe } from '@jest/globals';
import { onlyLong } from '../../support/jest/extent.ts';
import { testFaults } from './fault-table.ts';
import {
  freezeAndThaw,
  holderCut,
  masterCut,
  rollingRestart,
  stopAndStart,
} from '../../support/lab/faults.ts';
import { useLab } from './with-lab.ts';

describe('apiservers and masters that go, beside kube-proxy in iptables mode', () => {
  // As an apiserver should be set that is restarted while it serves: it says that it goes, and serves on for a while.
  const lab = useLab({ proxyMode: 'iptables', iptables: 'nft', shutdownDelaySeconds: 5 });
  testFaults(lab, [
    ...onlyLong(...masterCut),
    ...freezeAndThaw,
    ...stopAndStart,
    ...holderCut,
    ...onlyLong(rollingRestart),
  ]);
});
