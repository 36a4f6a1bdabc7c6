import { type Host, masters, worker, outsider } from '../../../test/support/network/layout.ts';

/** On a real node there are pods: these are on the masters that the layout leaves without. */
const morePods = { ipv4: '10.244.4', ipv6: 'fd00:244:4:' };

/** A second worker, for pods to go to. */
const otherWorker: Host = {
  name: 'worker2',
  addresses: { ipv4: '10.77.0.22', ipv6: 'fd77::22' },
  pods: { ipv4: '10.244.5', ipv6: 'fd00:244:5:' },
};

/** A real node. */
export type NodeHost = Required<Host>;

/** The real nodes: the layout's masters and worker, and one more. */
export const nodes: readonly NodeHost[] = [...masters, worker, otherWorker].map((host) => ({
  ...host,
  pods: host.pods ?? morePods,
}));

/** All hosts on the wire: the nodes, and the client outside the cluster. */
export const nodeHosts: readonly Host[] = [...nodes, outsider];

/** Whether a node is of the control plane. */
export function isMaster({ name }: Host): boolean {
  return masters.some((master) => master.name === name);
}
