import { formatEndpoint } from '../../../lib/address/endpoint.ts';
import { vipChainName } from '../../../lib/netfilter/rules/balance.ts';
import { type Drift } from '../../../lib/netfilter/rules/drift.ts';
import type { VipDecision } from '../../../agent/main.ts';

/** What a difference means for people, in one sentence; null where it means nothing that can be said in general. */
export function describeConsequence(
  { chain, kind }: Drift,
  decisions: readonly VipDecision[],
): string | null {
  const consequence = chainToConsequence.get(chain.toUpperCase());
  if (isUnhooked(kind) && consequence !== undefined) return consequence;
  const decision = decisions.find(({ vip }) => vipChainName(vip) === chain);
  return decision === undefined
    ? null
    : `${formatEndpoint(decision.vip)} should have the balancing mode ${decision.way}`;
}

/** What it means for people that a hook is not in its place. */
const chainToConsequence = new Map([
  ['PREROUTING', "clients on other hosts reach only the VIP holder's apiserver"],
  ['OUTPUT', "clients on this host reach only the VIP holder's apiserver"],
  ['POSTROUTING', 'connections to apiservers on other nodes hang: replies take another path'],
  ['FORWARD', 'a FORWARD policy of DROP drops connections to apiservers on other nodes'],
]);

function isUnhooked(kind: Drift['kind']): boolean {
  return ['missing-hook', 'hook-behind-rival', 'missing-chain', 'edited-table'].includes(kind);
}
