import { vipnatCommand } from '../../lab/components/agent.ts';
import { type SmallCluster } from '../shared/small-cluster.ts';
import { type Metallb } from './metallb.ts';

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

const runDir = '/run/vipnat-lb';

/** As docs/seats.md starts it. */
const keepalivedScript = `
for try in $(seq 1200); do [ ! -e ${runDir}/keepalived.conf ] || break; sleep 0.1; done
rm -f ${runDir}/keepalived.pid ${runDir}/vrrp.pid
exec keepalived --vrrp --dont-fork --log-console --use-file ${runDir}/keepalived.conf \\
  --pid ${runDir}/keepalived.pid --vrrp_pid ${runDir}/vrrp.pid`;

async function startVipnat({ cluster }: Ground, node: string): Promise<void> {
  const options = ['--kubeconfig', cluster.writeAdminKubeconfig(), '--node-name', node, '--run-dir', runDir];
  await cluster.machine(node).run(['rm', '-rf', runDir]);
  await cluster.service(node, 'balancer').start(vipnatCommand('balancer', ...options));
  await cluster.service(node, 'keepalived').start(['sh', '-ec', keepalivedScript]);
}
