import { familyToNft } from '../../lib/kernel/netlink/nft-chains.ts';
import { type ForwardChain } from '../../lib/kernel/port.ts';
import { ownTable } from '../../lib/kernel/netlink/own-table.ts';
import { isBalanced } from '../../config/way.ts';
import type { HostLook } from '../../agent/main.ts';

/** The chain of iptables-nft for what is forwarded. Any other chain of that table was made by nft, and iptables cannot show it. */
const iptablesChains = { ipv4: 'ip filter FORWARD', ipv6: 'ip6 filter FORWARD' } as const;

/**
 * Chains of others that drop what is balanced on its way to apiservers on other hosts, and that no rule of ours can
 * overrule: an accept counts in its own chain only, and those are not ours to write to (docs/adr/0013). Rules that
 * drop are not looked for, only policies.
 */
export function findForeignDrops(
  chains: readonly ForwardChain[],
  { decisions, observation }: Pick<HostLook, 'decisions' | 'observation'>,
): ForwardChain[] {
  const families = new Set(decisions.filter(isBalanced).map(({ vip }) => vip.family));
  const kinds: readonly string[] = [...families].map((family) => familyToNft[family]);
  // Where an iptables is, its chain is told to accept.
  const written = [...families]
    .filter((family) =>
      observation.rulesets.some(
        (seen) => seen.family === family && seen.dialect === 'nft' && !seen.unread.includes('filter'),
      ),
    )
    .map((family): string => iptablesChains[family]);
  return chains.filter(({ table, name, isDropping }) => {
    const [kind = ''] = table.split(' ');
    const isMet = kind === 'inet' ? families.size > 0 : kinds.includes(kind);
    return isDropping && isMet && !written.includes(`${table} ${name}`) && !table.endsWith(` ${ownTable}`);
  });
}
