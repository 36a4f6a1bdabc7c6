/** How Services do on this host, for a command that tells it. */
import { type NodeMode } from '../../lib/services/node-report.ts';
import { hangingMs } from '../../balancer/report/pages.ts';
import { type HostBalancer, isUsed } from './host-balancer.ts';

/** Why this node does not balance Services; null where it does. In a clause. */
export function findTrouble(host: HostBalancer): string | null {
  const { balancer, activity, tables } = host;
  if (!isUsed(host)) return null;
  if (balancer === null) return 'no balancer runs';
  if (activity === null) return 'the balancer does not say how it does';
  if (activity.behindMs >= hangingMs) return 'the balancer hangs';
  if (tables.some(({ aliveSeconds }) => aliveSeconds === null)) return 'its tables do not count';
  return activity.mode === 'direct' ? null : describeMode(activity.mode);
}

function describeMode(mode: NodeMode | null): string {
  if (mode === null) return 'the balancer has not written its tables yet';
  return mode === 'none' ? 'this node can serve no address' : 'the balancer leaves them to kube-proxy';
}
