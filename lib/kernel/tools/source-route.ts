import { type SourceRoute } from '../port.ts';

/**
 * The routing protocol by which vipnat's routes are told from others': none that iproute2 6.14, BIRD, FRR, Cilium, kube-vip
 * or keepalived uses.
 */
export const ownProtocol = 118;

/** What does to a route what `change` names, as a command for a shell. */
export function sourceRouteCommand(
  change: 'add' | 'remove',
  { address, device, source }: SourceRoute,
): string {
  const verb = change === 'add' ? 'prepend' : 'del';
  return `ip route ${verb} local ${address} dev ${device} table local proto ${ownProtocol} scope host src ${source}`;
}
