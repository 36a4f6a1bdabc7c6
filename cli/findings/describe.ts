import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { countApiservers } from '../../agent/decide/decision.ts';
import { isBalanced } from '../../config/way.ts';
import type { HostObservation, VipDecision } from '../../agent/main.ts';

/** `10.0.0.50:6443 is balanced, and its rules are in sync (service-chain, 3 apiservers)`; passthrough is not called balanced. */
export function describeInSync(decision: VipDecision): string {
  const { vip, way, backends, reason } = decision;
  const name = formatEndpoint(vip);
  return isBalanced(decision)
    ? `${name} is balanced, and its rules are in sync (${way}, ${countApiservers(backends.length)})`
    : `${name} is NOT BALANCED (${way}): ${reason}. Only the VIP holder's own apiserver answers`;
}

/** `kube-proxy: iptables (nft), reported at 127.0.0.1:10249`; in brackets what rules are written to. */
export function describeKubeProxy({
  proxyMode,
  dialect,
}: Pick<HostObservation, 'proxyMode' | 'dialect'>): string {
  return `kube-proxy: ${proxyMode.value} (${dialect.value}), ${proxyMode.seenIn}`;
}
