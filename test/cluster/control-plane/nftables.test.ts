import { describe } from '@jest/globals';
import { onlyLong } from '../../support/jest/extent.ts';
import { testEtcdOutage, testWithApi } from './api-followers.ts';
import { testFaults } from './fault-table.ts';
import {
  agentKilled,
  allowDrops,
  firewallRestored,
  kubeProxyRestarted,
  natFlushed,
} from '../../support/lab/faults.ts';
import { testSevenCases } from './seven-cases.ts';
import { useLab } from './with-lab.ts';

/** Two minutes are asked for by whoever has them. */
const etcdOutageMs = Number(process.env['LAB_ETCD_OUTAGE_MS'] ?? 15_000);

/**
 * Our table outlives a restore of iptables' rules, and goes on to send connections to other masters, which a FORWARD
 * policy of DROP keeps from getting there until iptables is told again.
 */
const maxDropsMs = 2000;

describe('kube-proxy in nftables mode', () => {
  const lab = useLab({ proxyMode: 'nftables' });
  testSevenCases(lab);
  const quick = [kubeProxyRestarted, firewallRestored, ...onlyLong(natFlushed, agentKilled)];
  testFaults(
    lab,
    quick.map((fault) => allowDrops(fault, maxDropsMs)),
  );

  describe('and agents that follow the API', () => {
    testWithApi(lab);
    testEtcdOutage(lab, etcdOutageMs);
  });
});
