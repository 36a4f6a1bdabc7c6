import type { SmallCluster } from '../shared/small-cluster.ts';
import type { Service } from '../../lab/machines/service.ts';
import { vipnatCommand } from '../../lab/components/agent.ts';

/** The words for them. Each is a node's name, too. */
export const setUpNames = ['vipnat', 'iptables', 'nftables'] as const;

/** One of them. */
export type SetUpName = (typeof setUpNames)[number];

/** What programs a node for Services. */
export interface SetUp {
  readonly title: string;
  /** Starts it on the node of its name. */
  start(cluster: SmallCluster): Promise<Service>;
}

/** By their words. */
export const setUps: Readonly<Record<SetUpName, SetUp>> = {
  vipnat: { title: 'vipnat', start: startBalancer },
  iptables: {
    title: 'kube-proxy, iptables',
    start: (cluster) => cluster.startKubeProxy('iptables', 'iptables'),
  },
  nftables: {
    title: 'kube-proxy, nftables',
    start: (cluster) => cluster.startKubeProxy('nftables', 'nftables'),
  },
};

async function startBalancer(cluster: SmallCluster): Promise<Service> {
  const service = cluster.service('vipnat', 'balancer');
  const options = ['--kubeconfig', cluster.writeAdminKubeconfig(), '--node-name', 'vipnat'];
  await service.start(vipnatCommand('balancer', ...options, '--run-dir', '/run/vipnat-lb'));
  return service;
}
