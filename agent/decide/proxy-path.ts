import { areSameEndpoints } from '../../lib/address/endpoint.ts';
import { type Sourced } from '../../lib/text/sourced.ts';
import { type Usable } from '../health/usable.ts';
import { type ProxyMode } from '../observe/proxy-mode.ts';
import { countApiservers, type ProxyPath, type VipFacts } from './decision.ts';

/** Why kube-proxy's path is not followed. */
export interface Obstacle {
  /** One sentence for a person. */
  readonly reason: string;
  /** Whether this is the bypass, to be left only after two equal looks. */
  readonly isBypass: boolean;
}

/** The bypass ends after this many equal looks, so that a kube-proxy in the middle of its own changes cannot make us flap. */
const looksToLeaveBypass = 2;

/** What keeps a VIP from the path that kube-proxy offers in its mode; null where it can be followed. Pure and total. */
export function findObstacle(facts: VipFacts): Obstacle | null {
  const { proxyMode, unwanted, usable, wasBypassing, agreedLooks } = facts;
  if (usable.isFailOpen) return bypass(describeFailOpen(usable));
  if (proxyMode.value !== 'iptables' && proxyMode.value !== 'ipvs')
    return avoid(describeOtherMode(proxyMode));
  if (unwanted !== null) {
    return avoid(`kube-proxy wants to delete its chain (${unwanted.seenIn})`);
  }
  const path = findPath(facts);
  if (path === null) return avoid(describeMissingPath(facts));
  if (!areSameEndpoints(path.backends, usable.value)) return bypass(describeDisagreement(path, usable));
  return wasBypassing && agreedLooks < looksToLeaveBypass
    ? bypass("kube-proxy's list has matched the usable apiservers for only one sync")
    : null;
}

/** Whether kube-proxy's own backends are the usable ones; false where it offers no path in its mode. */
export function isAgreeing(facts: Omit<VipFacts, 'agreedLooks' | 'wasBypassing'>): boolean {
  const path = findPath(facts);
  return path !== null && areSameEndpoints(path.backends, facts.usable.value);
}

/** `kube-proxy sends 10.96.0.1 to the same 3 apiservers (nat KUBE-SERVICES)` */
export function describePath({ seenIn, clusterIp, backends }: ProxyPath): string {
  return `kube-proxy sends ${clusterIp} to the same ${countApiservers(backends.length)} (${seenIn})`;
}

/** `2 apiservers are usable (10.0.0.13:6443 is dead)` */
export function describeUsable({ value, seenIn }: Usable): string {
  return `${countApiservers(value.length)} ${value.length === 1 ? 'is' : 'are'} usable (${seenIn})`;
}

function findPath({
  proxyMode,
  serviceChain,
  virtualServer,
}: Pick<VipFacts, 'proxyMode' | 'serviceChain' | 'virtualServer'>): ProxyPath | null {
  return proxyMode.value === 'ipvs' ? virtualServer : serviceChain;
}

function avoid(reason: string): Obstacle {
  return { reason, isBypass: false };
}

function bypass(reason: string): Obstacle {
  return { reason, isBypass: true };
}

function describeMissingPath({ proxyMode, serviceChainProblem, virtualServerProblem }: VipFacts): string {
  const problem = proxyMode.value === 'ipvs' ? virtualServerProblem : serviceChainProblem;
  return problem ?? 'kube-proxy has no active rules for default/kubernetes';
}

function describeFailOpen({ value, seenIn }: Usable): string {
  return `no apiserver answers this node's probes, so all ${value.length} stay in use (${seenIn})`;
}

function describeDisagreement(path: ProxyPath, usable: Usable): string {
  return `kube-proxy's list is out of date: it names ${countApiservers(path.backends.length)} (${path.seenIn}), and ${describeUsable(usable)}`;
}

function describeOtherMode({ value, seenIn }: Sourced<ProxyMode>): string {
  return value === 'none'
    ? `this host runs no kube-proxy (${seenIn})`
    : `kube-proxy runs in proxy mode ${value} (${seenIn}), and vipnat's rules cannot jump to its chains`;
}
