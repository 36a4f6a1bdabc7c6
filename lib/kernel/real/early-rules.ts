/** Rules of others that packets pass before connections are tracked: they may keep packets from being tracked. */
import { type Family, families } from '../../address/address.ts';
import { VipnatError } from '../../text/errors.ts';
import { withNetlinkClient } from '../netlink/netlink.ts';
import { familyToNft, listChains, type NftChain, type NftLayer } from '../netlink/nft-chains.ts';
import { type IptablesDialect, iptablesDialects } from '../port.ts';
import { createToolbox, isInPath, type Toolbox } from '../tools/toolbox.ts';
import { settleAll } from '../tools/settle.ts';
import { saveIptables } from './iptables.ts';
import { isNftName } from './nft-name.ts';
import { listNftTable } from './nft-table.ts';

/** What a tool printed of one place. */
export type EarlyRules =
  /** `iptables-save -t raw`. */
  | {
      readonly kind: 'iptables';
      readonly family: Family;
      readonly dialect: IptablesDialect;
      readonly text: string;
    }
  /** `nft -n -t list table`, of a table with a chain that comes before connection tracking. */
  | { readonly kind: 'nftables'; readonly table: string; readonly text: string };

/** NF_IP_PRI_CONNTRACK of linux/netfilter_ipv4.h: hooks before it see packets that are not tracked yet. */
const trackingPriority = -200;

/** Families of nftables whose hooks see packets of TCP connections before they are tracked. */
const layers: readonly (NftLayer | null)[] = ['ip', 'ip6', 'inet'];

/**
 * All such rules. A tool is started only for tables that have rules there: on most hosts for none. Rejects as these tools do, and without
 * CAP_NET_ADMIN with TOOL_NOT_PERMITTED.
 */
export async function readEarlyRules(limitMs = 10_000): Promise<readonly EarlyRules[]> {
  const chains = await listEarlyChains();
  const toolbox = createToolbox(limitMs);
  const saves = families.flatMap((family) =>
    iptablesDialects
      .filter((dialect) => dialect === 'legacy' || hasRules(chains, family))
      .map((dialect) => saveRaw(toolbox, { family, dialect, limitMs })),
  );
  const tables = new Set(
    chains.flatMap(({ layer, table }) =>
      isIptables(layer, table) || !isNftName(table) ? [] : [`${layer ?? ''} ${table}`],
    ),
  );
  const lists = isInPath('nft') ? [...tables].map((table) => listRaw(table, limitMs)) : [];
  return (await settleAll([...saves, ...lists])).filter((one) => one !== null);
}

/** None on a kernel without nf_tables. */
async function listEarlyChains(): Promise<readonly NftChain[]> {
  try {
    const all = await withNetlinkClient('netfilter', (client) => listChains(client), true);
    const early = all.filter(
      ({ layer, priority, use }) =>
        layers.includes(layer) && use > 0 && priority !== null && priority < trackingPriority,
    );
    return early.filter(({ table }) => !table.startsWith('vipnat'));
  } catch (error) {
    if (error instanceof VipnatError && error.code !== 'TOOL_NOT_PERMITTED') return [];
    throw error;
  }
}

function isIptables(layer: NftLayer | null, table: string): boolean {
  return table === 'raw' && layer !== 'inet';
}

function hasRules(chains: readonly NftChain[], family: Family): boolean {
  return chains.some(({ layer, table }) => table === 'raw' && layer === familyToNft[family]);
}

interface RawSource {
  readonly family: Family;
  readonly dialect: IptablesDialect;
  readonly limitMs: number;
}

/** Null on a host without this iptables. */
async function saveRaw(
  toolbox: Toolbox,
  { family, dialect, limitMs }: RawSource,
): Promise<EarlyRules | null> {
  if ((await toolbox.find(family, dialect, 'save')) === null) return null;
  const saved = await saveIptables(toolbox, { family, dialect, limitMs, table: 'raw' });
  return saved === null ? null : { kind: 'iptables', family, dialect, text: saved.text };
}

async function listRaw(table: string, limitMs: number): Promise<EarlyRules> {
  return { kind: 'nftables', table, text: await listNftTable(table, ['-t'], limitMs) };
}
