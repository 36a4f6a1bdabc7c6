import type { SmallCluster } from '../shared/small-cluster.ts';
import type { Metallb } from './metallb.ts';
import { startSeatNode } from '../shared/seat-node.ts';

/** The words for them. */
export const setUpNames = ['vipnat', 'metallb'] as const;

/** One of them. */
export type SetUpName = (typeof setUpNames)[number];

/** Where set-ups run. */
export interface Ground {
  readonly cluster: SmallCluster;
  /** Null where MetalLB is not measured. */
  readonly metallb: Metallb | null;
}

/** What has a node hold addresses of Services. */
export interface SetUp {
  readonly title: string;
  /** What it runs on each node. */
  readonly services: readonly string[];
  /** Starts it on a node. */
  start(ground: Ground, node: string): Promise<void>;
  /** What a node does that is back on the network. */
  returned(ground: Ground, node: string): Promise<void>;
}

/** By their words. */
export const setUps: Readonly<Record<SetUpName, SetUp>> = {
  vipnat: {
    title: 'vipnat',
    services: ['keepalived', 'balancer'],
    start: startVipnat,
    returned: () => Promise.resolve(),
  },
  metallb: {
    title: 'MetalLB, layer 2 mode',
    services: ['speaker'],
    start: async ({ metallb }, node) => {
      await metallb?.startSpeaker(node);
    },
    returned: async ({ metallb }, node) => {
      await metallb?.touchNode(node);
    },
  },
};

async function startVipnat({ cluster }: Ground, node: string): Promise<void> {
  const [keepalived, balancer] = [cluster.service(node, 'keepalived'), cluster.service(node, 'balancer')];
  await startSeatNode({ balancer, keepalived }, cluster.writeAdminKubeconfig());
}
