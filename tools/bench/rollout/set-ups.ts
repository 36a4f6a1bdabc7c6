import { type WebOptions, waitForAddress, webPort, podPort } from '../../lab/services/web.ts';
import type { NodeLab } from '../../lab/nodes/node-lab.ts';
import type { Target } from '../../../test/support/network/seat-tasks.ts';
import { worker } from '../../../test/support/network/layout.ts';
import { metallbClass, publishByMetallb } from './metallb.ts';

/** The words for them. */
export const setUpNames = [
  'vipnat',
  'vipnat-local',
  'vipnat-slow',
  'ungated-slow',
  'ungated',
  'kube-proxy',
  'metallb',
] as const;

/** One of them. */
export type SetUpName = (typeof setUpNames)[number];

/** What is in front of a Deployment that is updated. */
export interface SetUp {
  readonly title: string;
  /** What the Deployment and its Service have beside the usual. */
  readonly web: Pick<WebOptions, 'pod' | 'service'> & { readonly lifecycle?: object };
  /** Whether balancers stand still for three of 3.2 seconds while the update lasts. */
  readonly isSlowed: boolean;
  /** Where clients connect to. */
  locate(lab: NodeLab): Promise<Target>;
}

/** What both are called. */
export const webName = 'rollout';

const nodePort = 30_080;

const byVip = async (lab: NodeLab): Promise<Target> => ({
  host: await waitForAddress(lab, webName),
  port: webPort,
});

/** A gate, and the pause before SIGTERM that the webhook adds, too. */
const gated = {
  pod: { readinessGates: [{ conditionType: 'vipnat.io/load-balancer-ready' }] },
  lifecycle: { preStop: { sleep: { seconds: 2 } } },
};

/** By their words. */
export const setUps: Readonly<Record<SetUpName, SetUp>> = {
  vipnat: { title: 'vipnat, gate and preStop', web: gated, isSlowed: false, locate: byVip },
  'vipnat-local': {
    title: 'the same, with the policy Local',
    web: { ...gated, service: { externalTrafficPolicy: 'Local' } },
    isSlowed: false,
    locate: byVip,
  },
  'vipnat-slow': {
    title: 'with the policy Cluster, balancers 3 s late',
    // What is 3 s late needs a pause that is longer.
    web: { ...gated, lifecycle: { preStop: { sleep: { seconds: 5 } } } },
    isSlowed: true,
    locate: byVip,
  },
  'ungated-slow': {
    title: 'vipnat without them, balancers 3 s late',
    web: {},
    isSlowed: true,
    locate: byVip,
  },
  ungated: { title: 'vipnat without them', web: {}, isSlowed: false, locate: byVip },
  'kube-proxy': {
    title: 'kube-proxy alone, by a node port',
    web: {
      service: {
        type: 'NodePort',
        loadBalancerClass: undefined,
        ports: [{ port: webPort, targetPort: podPort, nodePort }],
      },
    },
    isSlowed: false,
    locate: () => Promise.resolve({ host: worker.addresses.ipv4, port: nodePort }),
  },
  metallb: {
    title: 'MetalLB (layer 2) and kube-proxy',
    web: { service: { loadBalancerClass: metallbClass } },
    isSlowed: false,
    locate: (lab) => publishByMetallb(lab, webName),
  },
};
