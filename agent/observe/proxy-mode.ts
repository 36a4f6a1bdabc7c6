import { type Sourced } from '../../lib/text/sourced.ts';
import { type IptablesProxyView } from '../../lib/kube-proxy/iptables.ts';

/** How kube-proxy programs Services on this host; `none` where there is no kube-proxy (Cilium and others). */
export type ProxyMode = 'iptables' | 'ipvs' | 'nftables' | 'none';

/** All that tells kube-proxy's mode, both families together. */
export interface ProxyModeEvidence {
  /** What `GET /proxyMode` answered, trimmed; null when nobody answered. */
  readonly asked: string | null;
  readonly configured: ProxyMode | 'auto';
  readonly iptables: readonly IptablesProxyView[];
  /** Whether the Service's virtual server is in IPVS. */
  readonly hasIpvsServer: boolean;
  /** Whether the nftables proxy's map sends the ClusterIP to the service's chain. */
  readonly hasNftEdge: boolean;
}

/**
 * kube-proxy's mode, and what says so: the configuration, kube-proxy itself, else what is alive in the kernel. A
 * mode that was left leaves rules behind, so what packets meet first counts: DNAT in PREROUTING comes before IPVS.
 * Pure and total.
 */
export function decideProxyMode(result: ProxyModeEvidence): Sourced<ProxyMode> {
  const { configured, asked } = result;
  if (configured !== 'auto') return { value: configured, seenIn: '--proxy-mode' };
  if (isProxyMode(asked)) {
    return { value: asked, seenIn: 'reported at 127.0.0.1:10249' };
  }
  return (
    findLive(result) ??
    findSetUp(result.iptables) ??
    findEmptied(result.iptables) ?? { value: 'none', seenIn: 'no trace of kube-proxy' }
  );
}

/** Whether kube-proxy's answer names a mode. */
export function isProxyMode(answer: string | null): answer is Exclude<ProxyMode, 'none'> {
  return answer === 'iptables' || answer === 'ipvs' || answer === 'nftables';
}

/** A mode whose rules for the Service are there. */
function findLive({ iptables, hasIpvsServer, hasNftEdge }: ProxyModeEvidence): Sourced<ProxyMode> | null {
  const hooked = iptables.find(({ isHooked, liveEdge }) => isHooked && liveEdge !== null);
  if (hooked !== undefined) return toFinding(hooked);
  if (hasNftEdge) return { value: 'nftables', seenIn: 'nft table ip kube-proxy' };
  // keepalived and others have virtual servers too: kube-proxy's come with rules of its own.
  if (hasIpvsServer && iptables.some(({ hasIpvsRules }) => hasIpvsRules)) {
    return { value: 'ipvs', seenIn: '/proc/net/ip_vs' };
  }
  const unhooked = iptables.find(({ liveEdge }) => liveEdge !== null);
  return unhooked === undefined ? null : toFinding(unhooked);
}

/** A mode whose chains packets pass, without rules for the Service: before the first update, or without endpoints. */
function findSetUp(iptables: readonly IptablesProxyView[]): Sourced<ProxyMode> | null {
  const hooked = iptables.find(({ isHooked }) => isHooked);
  if (hooked === undefined) return null;
  return {
    value: hooked.hasIpvsRules ? 'ipvs' : 'iptables',
    seenIn: 'nat PREROUTING jumps to KUBE-SERVICES',
  };
}

/** Chains without rules: somebody flushed the tables, and kube-proxy may take an hour to notice. */
function findEmptied(iptables: ProxyModeEvidence['iptables']): Sourced<ProxyMode> | null {
  if (!iptables.some(({ hasKubeProxyChains }) => hasKubeProxyChains)) return null;
  return { value: 'iptables', seenIn: "kube-proxy's chains exist, but have no rules" };
}

function toFinding({ liveEdge }: IptablesProxyView): Sourced<ProxyMode> {
  return { value: 'iptables', seenIn: liveEdge?.seenIn ?? 'nat KUBE-SERVICES' };
}
