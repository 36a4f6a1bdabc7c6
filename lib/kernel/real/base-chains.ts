import { type Family } from '../../address/address.ts';
import { VipnatError } from '../../text/errors.ts';
import { withNetlinkClient } from '../netlink/netlink.ts';
import { familyToNft, hasChain } from '../netlink/nft-chains.ts';
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
 * Where all chains are there, which the kernel says in a moment, no nft is started: it reads all chains of the host first, and again
 * after each commit of anybody.
 */
export async function makeBaseChains(family: Family, input: string, limitMs: number): Promise<void> {
  const missing = await listMissing(family, listBaseChains(input));
  if (missing.length === 0) return;
  const transaction = { family, dialect: 'nftables', input: renderBaseChains(family, missing) } as const;
  try {
    await runNft(transaction, Math.min(limitMs, maxMs));
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
  }
}

/** A chain of the kernel's, and where it is. */
export interface BaseChain {
  readonly table: string;
  readonly name: string;
  /** As nft is told it, without a policy, so that none is changed. */
  readonly place: string;
}

/** The kernel's chains in which a script changes rules, each once. Pure. */
export function listBaseChains(input: string): BaseChain[] {
  let table = '';
  const found = new Map<string, BaseChain>();
  for (const line of input.split('\n')) {
    if (line.startsWith('*')) table = line.slice(1);
    const [, name = ''] = /^-[IAD] (\S+) /.exec(line) ?? [];
    const place = places[table]?.[name];
    if (place !== undefined) found.set(`${table} ${name}`, { table, name, place });
  }
  return [...found.values()];
}

/** What nft is told to make them. Pure. */
export function renderBaseChains(family: Family, chains: readonly BaseChain[]): string {
  const layer = familyToNft[family];
  const lines = chains.flatMap(({ table, name, place }) => [
    `add table ${layer} ${table}\n`,
    `add chain ${layer} ${table} ${name} { ${place}; }\n`,
  ]);
  return [...new Set(lines)].join('');
}

/** Without an answer of the kernel all can be missing. */
async function listMissing(family: Family, chains: readonly BaseChain[]): Promise<readonly BaseChain[]> {
  if (chains.length === 0) return [];
  try {
    return await withNetlinkClient('netfilter', async (client) => {
      const missing: BaseChain[] = [];
      for (const chain of chains) {
        if (!(await hasChain(client, { ...chain, family: familyToNft[family] }))) missing.push(chain);
      }
      return missing;
    });
  } catch (error) {
    if (error instanceof VipnatError) return chains;
    throw error;
  }
}
