import { type Family } from '../../address/address.ts';
import { VipnatError } from '../../text/errors.ts';
import { runNft } from './nft-table.ts';

/** Where iptables-nft has the kernel's chains that a restore can put rules in (nft_xt_builtin_tables in iptables' nft.c). */
const places: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  filter: {
    INPUT: 'type filter hook input priority 0',
    FORWARD: 'type filter hook forward priority 0',
    OUTPUT: 'type filter hook output priority 0',
  },
  nat: {
    PREROUTING: 'type nat hook prerouting priority -100',
    INPUT: 'type nat hook input priority 100',
    OUTPUT: 'type nat hook output priority -100',
    POSTROUTING: 'type nat hook postrouting priority 100',
  },
};

/** nft adds chains in milliseconds; whoever is slower makes no write late. */
const maxMs = 2000;

/**
 * Makes the kernel's chains that a script for iptables-nft-restore puts rules in or takes them from, where they are missing, and
 * leaves those that are there as they are. iptables-nft would make them itself, but always with the policy ACCEPT, and it holds on
 * to that when somebody else's restore has made them a moment before, with DROP (seen with 1.8.9): whoever flushes a firewall and
 * restores it would have it open, by a repair of ours in between. What nft cannot do, or is not there to do, is left to iptables-nft.
 */
export async function makeBaseChains(family: Family, input: string, limitMs: number): Promise<void> {
  const script = renderBaseChains(family, input);
  if (script === '') return;
  const transaction = { family, dialect: 'nftables', input: script } as const;
  try {
    await runNft(transaction, Math.min(limitMs, maxMs));
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
  }
}

/** What nft is told for it: without a policy, so that none is changed. Empty where no rule of a kernel's chain is changed. Pure. */
export function renderBaseChains(family: Family, input: string): string {
  const layer = family === 'ipv6' ? 'ip6' : 'ip';
  let table = '';
  const lines = new Set<string>();
  for (const line of input.split('\n')) {
    if (line.startsWith('*')) table = line.slice(1);
    const [, chain = ''] = /^-[IAD] (\S+) /.exec(line) ?? [];
    const place = places[table]?.[chain];
    if (place === undefined) continue;
    lines.add(`add table ${layer} ${table}\n`);
    lines.add(`add chain ${layer} ${table} ${chain} { ${place}; }\n`);
  }
  return [...lines].join('');
}
