/**
 * What lets connections to Services pass where others drop what is forwarded: a chain of ours in iptables' table filter.
 *
 * Goal: connections that the balancer has sent to pods pass, and nothing else does.
 * Tension: a drop counts whatever other tables accept, and each packet on its way through this host passes the chain.
 * Compromise: the chain is there only while something drops. It looks at connections that were translated, by the address that
 * they asked for; addresses that are next to each other are one rule. Chains of network policies decide first.
 */
import { createHash } from 'node:crypto';
import { type Address } from '../../lib/address/address.ts';
import { leadsToPolicy } from '../../lib/netfilter/iptables/hook-order.ts';
import { dropsForwarded } from '../../lib/netfilter/iptables/forward.ts';
import { balancerChain } from '../../lib/netfilter/iptables/identity.ts';
import { type Ruleset } from '../../lib/netfilter/iptables/ruleset.ts';
import { toPrefixes } from '../../lib/services/prefixes.ts';

/** The chain of table filter. Whatever it holds is ours. Its name is none of those that `vipnat run` takes for its own. */
export const acceptChain = balancerChain;

/** The chains of table filter that `planAccept` goes by. */
export const acceptChains = ['FORWARD', acceptChain] as const;

/** What leads to it from FORWARD, as iptables-save prints it. */
const hook = `-j ${acceptChain}`;

/**
 * A script for iptables-restore --noflush that lets connections to these addresses, of the ruleset's family, pass where they are
 * dropped; empty where all is as it has to be. It takes the chain away where nothing is dropped. Pure.
 */
export function planAccept(seen: Ruleset, addresses: readonly Address[]): string {
  const filter = seen.tables.get('filter');
  if (seen.unread.includes('filter') || filter === undefined) return '';
  const isWanted = addresses.length > 0 && dropsForwarded(seen);
  const chain = filter.get(acceptChain);
  const forward = filter.get('FORWARD') ?? [];
  const hooks = forward.filter((rule) => rule === hook).map((rule) => `-D FORWARD ${rule}`);
  if (!isWanted) return chain === undefined ? '' : print([...hooks, `-X ${acceptChain}`]);
  return fill({ chain, forward, hooks }, renderRules(addresses));
}

interface SeenChains {
  readonly chain: readonly string[] | undefined;
  readonly forward: readonly string[];
  /** The lines that delete what leads to the chain. */
  readonly hooks: readonly string[];
}

/** A hook that is well stays: a move of it would be news to whoever else has a hook there. */
function fill({ chain, forward, hooks }: SeenChains, rules: readonly string[]): string {
  const others = forward.filter((rule) => rule !== hook);
  const place = findPlace(others);
  const isInPlace =
    hooks.length === 1 && place.first <= forward.indexOf(hook) && forward.indexOf(hook) <= place.last;
  if (isSame(chain, rules) && isInPlace) return '';
  const filled = rules.map((rule) => `-A ${acceptChain} ${rule}`);
  return print(isInPlace ? filled : [...hooks, ...filled, `-I FORWARD ${place.first + 1} ${hook}`]);
}

function print(lines: readonly string[]): string {
  // Declaring the chain makes it, or empties it.
  return ['*filter', `:${acceptChain} - [0:0]`, ...lines, 'COMMIT', ''].join('\n');
}

/** The first rule says by its comment what all of them are: iptables does not print rules as they were written. */
function renderRules(addresses: readonly Address[]): string[] {
  const prefixes = toPrefixes(addresses);
  const content = createHash('sha256').update(prefixes.join()).digest('base64url').slice(0, 16);
  return [
    `-m comment --comment "viplb:${content}" -m conntrack ! --ctstate DNAT -j RETURN`,
    ...prefixes.map((prefix) => `-m conntrack --ctstate DNAT --ctorigdst ${prefix} -j ACCEPT`),
  ];
}

function isSame(chain: readonly string[] | undefined, rules: readonly string[]): boolean {
  const [, comment = ''] = /"viplb:([^"]+)"/.exec(rules[0] ?? '') ?? [];
  return chain?.length === rules.length && chain[0]?.includes(`viplb:${comment}`) === true;
}

/**
 * Before how many of others' rules it may be: behind each chain of a network policy, and before all that drops. Where a drop is before
 * such a chain, nothing of what drops there gets to the chain anyway. Other chains may drop, too: their place is their owners' choice.
 */
function findPlace(others: readonly string[]): { readonly first: number; readonly last: number } {
  const drop = others.findIndex((rule) => /(?:^| )-j (?:DROP|REJECT)\b/.test(rule));
  const last = drop < 0 ? others.length : drop;
  return { first: others.slice(0, last).findLastIndex(leadsToPolicy) + 1, last };
}
