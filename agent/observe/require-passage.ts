import { type Config } from '../../config/config.ts';
import { type Family } from '../../lib/address/address.ts';
import { type Kernel } from '../../lib/kernel/port.ts';
import { familyToNft } from '../../lib/kernel/netlink/nft-chains.ts';
import { isOwnChain } from '../../lib/netfilter/iptables/identity.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { type Observation } from './observe.ts';

/**
 * Whether what is balanced may pass where a table of our own stands in for iptables. Nobody can write to a table filter that iptables cannot
 * show: if its policy drops, connections to apiservers on other hosts would hang that the VIP holder answers now. Where rules of ours
 * are, ours for that table are, too: they were written when it could be shown.
 * @throws VipnatError TABLE_INCOMPATIBLE
 */
export async function requirePassage(
  kernel: Pick<Kernel, 'listForwardChains'>,
  observation: Observation,
  { iptables, vips }: Pick<Config, 'iptables' | 'vips'>,
): Promise<void> {
  const { dialect, proxyMode, unread } = observation;
  if (iptables !== 'auto' || dialect.value !== 'nftables' || proxyMode.value === 'nftables') return;
  const closed = unread
    .filter(({ code, tables }) => code === 'TABLE_INCOMPATIBLE' && tables.includes('filter'))
    .filter(({ family }) => vips.some((vip) => vip.family === family) && !hasRules(observation, family));
  if (closed.length === 0) return;
  const dropping = (await kernel.listForwardChains()).filter(({ isDropping }) => isDropping);
  for (const { family, message } of closed) {
    const chain = dropping.find(({ table }) => table === `${familyToNft[family]} filter`);
    if (chain !== undefined) {
      const passage = `nft add rule ${chain.table} ${chain.name} ct status dnat accept`;
      throw new VipnatError(
        'TABLE_INCOMPATIBLE',
        `${message}. ${chain.name} drops what vipnat would balance, unless its owner lets it pass: ${passage}`,
      );
    }
  }
}

/** Whether rules of ours balance this family already. */
function hasRules({ rulesets, nftRulesets }: Observation, family: Family): boolean {
  return (
    nftRulesets.some((seen) => seen.family === family && seen.table !== null) ||
    rulesets.some(
      (seen) => seen.family === family && [...(seen.tables.get('nat')?.keys() ?? [])].some(isOwnChain),
    )
  );
}
