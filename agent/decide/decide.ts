import { type Decision, type VipFacts } from './decision.ts';
import { type Choice } from './choices.ts';
import { listEligible, wayToEntry } from './ways.ts';
import { type Way } from '../../config/way.ts';

/**
 * Chooses a VIP's way: from top to bottom of the table, the first that can be had, or the one that is asked for. Where
 * there is none, the VIP is left to its holder. Pure and total (I3).
 */
export function decide(facts: VipFacts): Decision {
  const { mode, method = 'random', proxyMode, closedSwitch } = facts;
  if (closedSwitch !== null) return leave(facts, `IP forwarding is off (${closedSwitch} is 0)`);
  let reason = '';
  for (const way of listEligible({ mode, method, proxyMode: proxyMode.value })) {
    const choice = wayToEntry[way].choose?.(facts) ?? { refusal: reason };
    if (!('refusal' in choice)) return toDecision(facts, way, choice);
    reason = choice.refusal;
  }
  return leave(facts, reason);
}

function leave(facts: VipFacts, reason: string): Decision {
  return toDecision(facts, 'passthrough', { reason, backends: [] });
}

function toDecision(
  { vip, usable, serviceChain, virtualServer, affinitySeconds }: VipFacts,
  way: Way,
  choice: Choice,
): Decision {
  const clusterIp = (serviceChain ?? virtualServer)?.clusterIp ?? null;
  return { vip, way, isBypass: false, clusterIp, affinitySeconds, backends: usable.value, ...choice };
}
