import { type Family } from '../../address/address.ts';
import { type NetlinkQuestioner, withNetlinkClient } from '../netlink/netlink.ts';
import { familyToNft, listChains, type NftChain, type NftFamily } from '../netlink/nft-chains.ts';
import { type RawRules, readRawRules } from '../netlink/nft-rules.ts';
import { readOneMoment } from './one-moment.ts';
import { type ChainSelection, iptablesTables } from '../port.ts';

/** A chain of iptables-nft, as netlink shows it: everything but what its rules mean. */
export interface SeenChain extends Pick<NftChain, 'table' | 'name' | 'policy'> {
  readonly ruleCount: number;
  /** The handles of its rules: what is written anew has another text, also where it says the same. */
  readonly handles: string;
  /** What its rules say, as a text to compare: the same for chains of this name that say the same. */
  readonly digest: string;
}

/** The chains that are wanted, as they were at one moment. */
export interface ChainSnapshot {
  /** The tables that there are, of those that vipnat reads. */
  readonly tables: readonly string[];
  readonly chains: readonly SeenChain[];
  /** About how many rules these tables have in all other chains. */
  readonly unlistedRules: number;
}

/** Who answers for the kernel: one for what is short, and one for lists, see createNetlinkClient. */
export interface RuleClients {
  readonly short: NetlinkQuestioner;
  readonly long: NetlinkQuestioner;
}

/** Gives both clients, and closes them afterwards. */
export async function withRuleClients<T>(use: (clients: RuleClients) => Promise<T>): Promise<T> {
  return await withNetlinkClient('netfilter', (short) =>
    withNetlinkClient('netfilter', (long) => use({ short, long }), true),
  );
}

/** A part of a list of the kernel's usual size holds a few rules of kube-proxy. */
const longChain = 50;

/**
 * The wanted chains of one family at one moment; null where they did not hold still. Rejects with NETLINK_FAILED or
 * TOOL_NOT_PERMITTED.
 */
export async function takeSnapshot(
  clients: RuleClients,
  family: Family,
  selection: ChainSelection,
): Promise<ChainSnapshot | null> {
  return await readOneMoment(
    clients.short,
    () => readOnce(clients, familyToNft[family], selection),
    describe,
  );
}

function describe({ tables, chains }: ChainSnapshot): string {
  const states = chains.map(({ table, name, policy, handles, digest }) => [
    table,
    name,
    policy,
    handles,
    digest,
  ]);
  return JSON.stringify([tables, states]);
}

async function readOnce(
  { short, long }: RuleClients,
  family: NftFamily,
  selection: ChainSelection,
): Promise<ChainSnapshot> {
  const { tables = iptablesTables } = selection;
  const all = (await listChains(long, family)).filter(({ table }) => tables.some((name) => name === table));
  const found = new Map<NftChain, RawRules>();
  const read = async (chains: readonly NftChain[]) => {
    // A chain can be listed twice, if others went meanwhile.
    const nameToChain = new Map(chains.map((chain) => [`${chain.table} ${chain.name}`, chain]));
    for (const chain of nameToChain.values()) {
      const client = chain.use > longChain ? long : short;
      found.set(chain, await readRawRules(client, { family, table: chain.table, chain: chain.name }));
    }
  };
  await read(all.filter(({ name }) => isSelected(name, selection)));
  await read(listReferred(all, found, selection));
  await read(await listReferring({ client: long, family, all, found }, selection));
  return {
    tables: [...new Set(all.map(({ table }) => table))],
    chains: [...found].map(([chain, rules]) => toSeen(chain, rules)),
    unlistedRules: all.filter((chain) => !found.has(chain)).reduce((sum, { use }) => sum + use, 0),
  };
}

function isSelected(name: string, { names, prefixes }: ChainSelection): boolean {
  return names.includes(name) || prefixes.some((prefix) => name.startsWith(prefix));
}

type Found = ReadonlyMap<NftChain, RawRules>;

function listReferred(
  all: readonly NftChain[],
  found: Found,
  { referred }: ChainSelection,
): readonly NftChain[] {
  const targets = new Set(
    [...found].flatMap(([{ table }, rules]) => rules.jumps.map(({ to }) => `${table} ${to}`)),
  );
  return all.filter(
    (chain) =>
      !found.has(chain) &&
      targets.has(`${chain.table} ${chain.name}`) &&
      referred.some((prefix) => chain.name.startsWith(prefix)),
  );
}

interface Reading {
  readonly client: NetlinkQuestioner;
  readonly family: NftFamily;
  readonly all: readonly NftChain[];
  readonly found: Found;
}

/** Of the chains with a wanted prefix the kernel counts who leads to them: where rules are missing in that count, all of the table are searched. */
async function listReferring(
  { client, family, all, found }: Reading,
  { prefixes }: ChainSelection,
): Promise<readonly NftChain[]> {
  const referring: NftChain[] = [];
  const isOwn = (name: string) => prefixes.some((prefix) => name.startsWith(prefix));
  for (const table of new Set(all.map((chain) => chain.table))) {
    const inTable = [...found].filter(([chain]) => chain.table === table);
    const known = inTable.flatMap(([, { jumps }]) => jumps.filter(({ to }) => isOwn(to)));
    const counted = inTable
      .filter(([{ name }]) => isOwn(name))
      .reduce((sum, [{ use }, rules]) => sum + use - rules.handles.length, 0);
    if (counted <= known.length) continue;
    const { jumps } = await readRawRules(client, { family, table });
    const names = new Set(jumps.filter(({ to }) => isOwn(to)).map(({ from }) => from));
    referring.push(
      ...all.filter((chain) => chain.table === table && names.has(chain.name) && !found.has(chain)),
    );
  }
  return referring;
}

function toSeen({ table, name, policy }: NftChain, { handles, digest }: RawRules): SeenChain {
  return { table, name, policy, ruleCount: handles.length, handles: handles.join(), digest };
}
