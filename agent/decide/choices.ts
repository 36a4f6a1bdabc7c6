import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { type Weights } from '../../lib/netfilter/rules/balance.ts';
import { type Decision, type ProxyPath, type VipFacts } from './decision.ts';
import { describePath, describeUsable, findObstacle } from './proxy-path.ts';
import { type Way } from '../../config/way.ts';

/** That a way is taken, and what is decided by that. What is left out is as for any way. */
export interface Choice extends Partial<Pick<Decision, 'isBypass' | 'clusterIp' | 'backends' | 'weights'>> {
  /** One sentence for a person, without the VIP. */
  readonly reason: string;
}

/** That a way cannot be had. */
export interface Refusal {
  /** One sentence for a person, without the VIP. */
  readonly refusal: string;
}

/** By kube-proxy's path: while its backends are the usable ones, or whatever they are where that is asked for. Pure. */
export function followPath(facts: VipFacts, way: Way, path: ProxyPath | null): Choice | Refusal {
  if (facts.mode === way) return force(way, path);
  if (path === null || facts.usable.value.length === 0 || findObstacle(facts) !== null) {
    return { refusal: 'kube-proxy has no rules that lead to the usable apiservers' };
  }
  return { reason: nameSource(facts, describePath(path)), clusterIp: path.clusterIp };
}

/** Straight to the usable apiservers: wherever any is known, for whatever keeps others from kube-proxy's path. Pure. */
export function goDirect(facts: VipFacts): Choice | Refusal {
  const { mode, method, usable, weights } = facts;
  if (usable.value.length === 0) return { refusal: `no apiserver is known (${usable.seenIn})` };
  if (method === 'lc')
    return { reason: nameSource(facts, nameSubstitute(facts, describeLc(facts))), ...addWeights(weights) };
  const obstacle = mode === 'direct' ? null : findObstacle(facts);
  const reason = obstacle?.reason ?? '--mode direct is set';
  return { reason: nameSource(facts, nameSubstitute(facts, reason)), isBypass: obstacle?.isBypass ?? false };
}

function addWeights(weights: Weights | undefined): Pick<Decision, 'weights'> {
  return weights === undefined ? {} : { weights };
}

function describeLc({ weights }: VipFacts): string {
  return `--method lc is set, and ${weights === undefined ? 'each apiserver gets as many new connections' : 'apiservers with fewer open connections get more new ones'}`;
}

/** A forced way is that way or none: what cannot be had leaves the VIP to its holder. */
function force(way: Way, path: ProxyPath | null): Choice | Refusal {
  if (path === null || path.backends.length === 0) {
    return { refusal: `--mode ${way} is set, but kube-proxy has no active rules for it` };
  }
  const { loop = null, clusterIp, backends } = path;
  if (loop !== null) {
    const where = `${formatEndpoint(loop)}, the address of a virtual IP`;
    return { refusal: `--mode ${way} is set, but kube-proxy's rules lead to ${where}` };
  }
  return { reason: `--mode ${way} is set, and ${describePath(path)}`, clusterIp, backends };
}

/** Adds to the reason that an unlisted apiserver serves. */
function nameSubstitute({ usable }: VipFacts, reason: string): string {
  if (usable.isSubstitute !== true || reason.includes(usable.seenIn)) return reason;
  return `${reason}; ${describeUsable(usable)}`;
}

/** The API belongs into the reason wherever apiservers are known from it. */
function nameSource({ apiSource }: VipFacts, reason: string): string {
  return apiSource === null || reason.includes(apiSource) ? reason : `${reason}; listed in ${apiSource}`;
}
