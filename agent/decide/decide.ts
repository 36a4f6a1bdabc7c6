import { kubernetesService, serviceChain } from '../api/kubernetes-service.ts';
import { type Balance } from '../../lib/netfilter/rules/balance.ts';
import { areSameEndpoints, type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { type Sourced } from '../../lib/text/sourced.ts';
import { type ProxyMode } from '../observe/proxy-mode.ts';
import { type Usable } from '../health/usable.ts';

/** How a VIP's new connections can be balanced. */
export const ways = ['service-chain', 'cluster-ip', 'direct', 'passthrough'] as const;

/** One of ways. */
export type Way = (typeof ways)[number];

/** A path kube-proxy offers to the service: usable by us only while its backends are the usable ones. */
export interface ProxyPath {
  readonly clusterIp: string;
  readonly backends: readonly Endpoint[];
  /** The backend that is at a virtual IP, if one is: connections to a virtual IP cannot end there. Left out where none is. */
  readonly loop?: Endpoint | null;
  /** Where it was seen, for the reason. */
  readonly seenIn: string;
}

/** All that the decision about one VIP rests on. */
export interface VipFacts {
  readonly vip: Endpoint;
  /** `--mode`. */
  readonly mode: 'auto' | 'service-chain' | 'cluster-ip' | 'direct';
  readonly proxyMode: Sourced<ProxyMode>;
  /** The kernel's switch that keeps this host from passing on what is balanced, or null. */
  readonly closedSwitch: string | null;
  /** kube-proxy's live chain in the backend we write to, or null. */
  readonly serviceChain: ProxyPath | null;
  /** Why there is a chain and yet none to follow, or null. */
  readonly serviceChainProblem: string | null;
  /** kube-proxy's virtual server with a real server of weight above 0, or null. */
  readonly virtualServer: ProxyPath | null;
  /** Why the virtual server cannot be told from others, with the way out, or null. */
  readonly virtualServerProblem: string | null;
  /** The rule by which kube-proxy shows that it wants its chain gone, or null. */
  readonly unwanted: Sourced<string> | null;
  /** The apiservers that may get new connections, of the VIP's family, and where they are known from or who is left out. */
  readonly usable: Usable;
  /** For how long a client stays with its apiserver; null for not at all. */
  readonly affinitySeconds: number | null;
  /** Where the Kubernetes API lists them, when they are known from there; else null. */
  readonly apiSource: string | null;
  /** In how many looks on end kube-proxy's backends were the usable ones, this one included. */
  readonly agreedLooks: number;
  /** Whether the bypass was on: direct because kube-proxy's backends were not the usable ones. */
  readonly wasBypassing: boolean;
}

/** The way one VIP goes, and why. */
export interface Decision {
  readonly vip: Endpoint;
  readonly way: Way;
  /** One sentence for a person, without the VIP. */
  readonly reason: string;
  /** Whether this is the bypass, to be left only after two equal looks. */
  readonly isBypass: boolean;
  /** kube-proxy's ClusterIP for the service as far as known. */
  readonly clusterIp: string | null;
  /** For how long a client stays with its apiserver in the way direct; null for not at all. */
  readonly affinitySeconds: number | null;
  /** Where connections end, whichever way they go: empty for passthrough. */
  readonly backends: readonly Endpoint[];
}

/** The bypass ends after this many equal looks, so that a kube-proxy in the middle of its own changes cannot make us flap. */
const looksToLeaveBypass = 2;

/** Chooses a VIP's way: the table of docs/design.md, from top to bottom. Pure and total (I3). */
export function decide(facts: VipFacts): Decision {
  const { mode, proxyMode, serviceChain, virtualServer, usable, unwanted, closedSwitch } = facts;
  if (closedSwitch !== null) return decline(facts, `this host does not forward (${closedSwitch} is 0)`);
  if (mode === 'service-chain') return force(facts, unwanted === null ? serviceChain : null);
  if (mode === 'cluster-ip') return force(facts, virtualServer);
  if (usable.value.length === 0) return decline(facts, `no apiserver is known (${usable.seenIn})`);
  if (mode === 'direct') return goDirect(facts, 'it is asked for (--mode direct)');
  if (usable.isFailOpen) return { ...goDirect(facts, describeFailOpen(facts)), isBypass: true };
  if (proxyMode.value === 'iptables') return follow(facts, 'service-chain', serviceChain);
  if (proxyMode.value === 'ipvs') return follow(facts, 'cluster-ip', virtualServer);
  return goDirect(facts, describeOtherMode(proxyMode));
}

/** Whether kube-proxy's own backends are the usable ones; false where it offers no path in its mode. */
export function isAgreeing(facts: Omit<VipFacts, 'agreedLooks' | 'wasBypassing'>): boolean {
  const path = facts.proxyMode.value === 'ipvs' ? facts.virtualServer : facts.serviceChain;
  return path !== null && areSameEndpoints(path.backends, facts.usable.value);
}

function follow(facts: VipFacts, way: 'service-chain' | 'cluster-ip', path: ProxyPath | null): Decision {
  const { unwanted, usable, wasBypassing, agreedLooks } = facts;
  if (unwanted !== null) {
    return goDirect(facts, `kube-proxy wants its chain gone (${unwanted.seenIn})`);
  }
  if (path === null) return goDirect(facts, describeMissingPath(facts));
  if (!areSameEndpoints(path.backends, usable.value)) {
    return { ...goDirect(facts, describeDisagreement(path, usable)), isBypass: true };
  }
  if (wasBypassing && agreedLooks < looksToLeaveBypass) {
    return {
      ...goDirect(facts, 'kube-proxy has had the usable apiservers for one look only'),
      isBypass: true,
    };
  }
  return { ...toDecision(facts, way, nameSource(facts, describePath(path))), clusterIp: path.clusterIp };
}

/** A forced way is that way or none: what cannot be had leaves the VIP to its holder. */
function force(facts: VipFacts, path: ProxyPath | null): Decision {
  const { mode } = facts;
  if (path === null || mode === 'auto' || path.backends.length === 0) {
    return decline(facts, `--mode ${mode} is asked for, and kube-proxy has no live rules for it`);
  }
  const { loop = null } = path;
  if (loop !== null) {
    const where = `${formatEndpoint(loop)}, which is at a virtual IP`;
    return decline(facts, `--mode ${mode} is asked for, and kube-proxy's rules lead to ${where}`);
  }
  const reason = `it is asked for (--mode ${mode}): ${describePath(path)}`;
  return { ...toDecision(facts, mode, reason), clusterIp: path.clusterIp, backends: path.backends };
}

function goDirect(facts: VipFacts, reason: string): Decision {
  return toDecision(facts, 'direct', nameSource(facts, nameSubstitute(facts, reason)));
}

/** Adds to the reason that an unlisted apiserver serves. */
function nameSubstitute({ usable }: VipFacts, reason: string): string {
  if (usable.isSubstitute !== true || reason.includes(usable.seenIn)) return reason;
  return `${reason}; ${describeUsable(usable)}`;
}

/** The API belongs into the reason wherever apiservers are known from it. */
function nameSource({ apiSource }: VipFacts, reason: string): string {
  return apiSource === null || reason.includes(apiSource) ? reason : `${reason}; known from ${apiSource}`;
}

function decline(facts: VipFacts, reason: string): Decision {
  return { ...toDecision(facts, 'passthrough', reason), backends: [] };
}

function toDecision(
  { vip, usable, serviceChain, virtualServer, affinitySeconds }: VipFacts,
  way: Way,
  reason: string,
): Decision {
  const clusterIp = (serviceChain ?? virtualServer)?.clusterIp ?? null;
  return { vip, way, reason, isBypass: false, clusterIp, affinitySeconds, backends: usable.value };
}

function describeMissingPath({ proxyMode, serviceChainProblem, virtualServerProblem }: VipFacts): string {
  const problem = proxyMode.value === 'ipvs' ? virtualServerProblem : serviceChainProblem;
  return problem ?? 'kube-proxy has no live rules for the service';
}

function describePath({ seenIn, clusterIp, backends }: ProxyPath): string {
  return `kube-proxy sends ${clusterIp} to the same ${countApiservers(backends.length)} (${seenIn})`;
}

function describeFailOpen({ usable }: VipFacts): string {
  return `no apiserver answers this node's probes, so all ${usable.value.length} are kept (${usable.seenIn})`;
}

function describeDisagreement(path: ProxyPath, usable: Usable): string {
  return `kube-proxy lists ${countApiservers(path.backends.length)} (${path.seenIn}), ${describeUsable(usable)}`;
}

function describeUsable({ value, seenIn }: Usable): string {
  return `usable ${value.length === 1 ? 'is' : 'are'} ${value.length} (${seenIn})`;
}

function describeOtherMode({ value, seenIn }: Sourced<ProxyMode>): string {
  return value === 'none'
    ? `no kube-proxy is here (${seenIn})`
    : `kube-proxy runs in ${value} mode (${seenIn}), whose chains cannot be joined`;
}

/** `1 apiserver`, `3 apiservers`. */
export function countApiservers(count: number): string {
  return `${count} apiserver${count === 1 ? '' : 's'}`;
}

/** What a decision asks the kernel for. */
export function toRoute({ way, vip, clusterIp, backends, affinitySeconds }: Decision): Balance['route'] {
  if (way === 'service-chain') return { way, chain: serviceChain };
  if (way === 'cluster-ip' && clusterIp !== null) {
    return { way, clusterIp: { family: vip.family, address: clusterIp, port: kubernetesService.port } };
  }
  return way === 'direct' ? { way, backends, affinitySeconds } : { way: 'passthrough' };
}
