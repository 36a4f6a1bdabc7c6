import { settleAll, execTool, splitLines, runTool, isInPath, toolFailed } from './tools.ts';
import {
  type NftChain,
  readOneMoment,
  listChains,
  type RawRules,
  readRawRules,
  type NftLayer,
} from './nft-netlink.ts';
import { type NetlinkQuestioner, withNetlinkClient } from './netlink.ts';
import type { Family } from '../net.ts';
import {
  type ChainSelection,
  familyToNft,
  type NftFamily,
  iptablesTables,
  type ForwardChain,
  ownTable,
} from './port.ts';
import { RuleMemory } from './iptables.ts';
import { isNftName, parseObjects } from './nftables.ts';
import { VipnatError } from '../errors.ts';

/** What iptables-nft prints of a chain's rules; null of one that has rules which it cannot show. */
export type ChainText = string | null;

/** The names of the tools of one family. */
export interface ListTools {
  readonly list: string;
  readonly save: string;
}

/** A listing that does not end is given up. */
interface ListLimit {
  readonly limitMs: number;
}

/** A few at a time: the host has other work, and each is done in milliseconds. */
const listsAtOnce = 4;

/**
 * What one run of iptables-nft for each chain prints; without the chains for which it failed, as for one that is gone. A run takes some
 * milliseconds, and as long as its chain has rules. Rejects as execTool does.
 */
export async function listChainTexts(
  { list }: ListTools,
  chains: readonly SeenChain[],
  { limitMs }: ListLimit,
): Promise<Map<SeenChain, ChainText>> {
  const texts = new Map<SeenChain, ChainText>();
  for (let first = 0; first < chains.length; first += listsAtOnce) {
    const batch = chains.slice(first, first + listsAtOnce);
    const printed = await settleAll(batch.map((chain) => listChainText(list, chain, limitMs)));
    for (const [at, chain] of batch.entries()) {
      const text = printed[at];
      if (text !== undefined) texts.set(chain, text);
    }
  }
  return texts;
}

async function listChainText(
  tool: string,
  { table, name, ruleCount }: SeenChain,
  limitMs: number,
): Promise<ChainText | undefined> {
  const words = ['-t', table, '-S', name];
  const { exitCode, stdout, stderr } = await execTool({
    tool,
    arguments: words,
    limitMs,
    isLowPriority: true,
  });
  // iptables 1.8.9, also of a chain that is gone: "chain `INPUT' in table `nat' is incompatible, use 'nft' tool."
  if (exitCode !== 0) return stderr.includes("is incompatible, use 'nft' tool") ? null : undefined;
  const rules = [...splitLines(stdout)].filter((line) => line.startsWith(`-A ${name} `));
  return rules.length === ruleCount ? rules.join('\n') : undefined;
}

/** What one run of iptables-nft-save prints of the chains; without those of a table that it cannot show, and of chains that changed meanwhile. Rejects alike. */
export async function saveChainTexts(
  { save }: ListTools,
  chains: readonly SeenChain[],
  { limitMs }: ListLimit,
): Promise<Map<SeenChain, ChainText>> {
  const { exitCode, stdout } = await execTool({ tool: save, arguments: [], limitMs, isLowPriority: true });
  if (exitCode !== 0) return new Map();
  const placeToRules = partRules(stdout);
  return new Map(
    chains.flatMap((chain) => {
      const rules = placeToRules.get(`${chain.table} ${chain.name}`) ?? [];
      return rules.length === chain.ruleCount ? [[chain, rules.join('\n')] as const] : [];
    }),
  );
}

/** Table and chain to the chain's rules. */
function partRules(text: string): Map<string, string[]> {
  const placeToRules = new Map<string, string[]>();
  let table = '';
  for (const line of splitLines(text)) {
    if (line.startsWith('*')) table = line.slice(1);
    const [, chain] = /^-A (\S+)/.exec(line) ?? [];
    if (chain === undefined) continue;
    const place = `${table} ${chain}`;
    const rules = placeToRules.get(place);
    if (rules === undefined) placeToRules.set(place, [line]);
    else rules.push(line);
  }
  return placeToRules;
}

/** A chain of iptables-nft, as netlink shows it: everything but what its rules mean. */
export interface SeenChain extends Pick<NftChain, 'table' | 'name' | 'policy'> {
  readonly ruleCount: number;
  /** The handles of its rules: a rule that is written again has another text, also where it says the same. */
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

/**
 * Chains of nftables that are hooked into the path of packets, whoever they belong to.
 *
 * Goal: a read takes milliseconds and starts no tool while nothing of interest has changed.
 * Tension: nft reads all chains of the host first, and begins again at each commit of anybody (1.0.6). Only nft knows what a rule means.
 * Compromise: netlink tells the chains. What nft has printed of a chain that drops is remembered by the bytes of its rules. nft is asked for all
 * where netlink does not answer: it has more to say.
 */

/** Lists chains for packets that this host forwards, and remembers what their rules let pass. */
export class ForwardChains {
  readonly #limitMs: number;
  readonly #memory = new RuleMemory<boolean>();

  /** Each tool may take `limitMs`. */
  constructor(limitMs: number) {
    this.#limitMs = limitMs;
  }

  /** nftables' chains for such packets, iptables-nft's included. None where nft is missing. Rejects as nft does. */
  async list(): Promise<readonly ForwardChain[]> {
    const chains = (await listHookedChains(this.#limitMs)).filter(
      ({ isForward, type }) => isForward && type === 'filter',
    );
    return await settleAll(
      chains.map(async (chain) => ({
        table: `${chain.layer} ${chain.table}`,
        name: chain.name,
        isDropping: chain.isDropping && !(await this.#letsPassTranslated(chain)),
      })),
    );
  }

  /** A chain that goes meanwhile, or cannot be asked for, lets nothing pass. */
  async #letsPassTranslated({ layer, table, name }: HookedChain): Promise<boolean> {
    if (![table, name].every(isNftName)) return false;
    const words = ['list', 'chain', layer, table, name];
    const call = { tool: 'nft', arguments: words, limitMs: this.#limitMs, isLowPriority: true } as const;
    const place = { family: layer, table, chain: name };
    return await this.#memory.recall(place, async () => hasPassage(await runTool(call))).catch(() => false);
  }
}

/** Whether a chain has the rule that `check` and `doctor` ask its owner for, with or without a counter and a comment. */
function hasPassage(text: string): boolean {
  return /^\s+ct status dnat (?:counter packets \d+ bytes \d+ )?accept(?: comment ".*")?$/m.test(text);
}

/** The families whose connections a table of nftables other than vipnat's and iptables-nft's translates. None where nft is missing. */
export async function listTranslatedFamilies(limitMs = 10_000): Promise<ReadonlySet<Family>> {
  const others = (await listHookedChains(limitMs)).filter(
    ({ type, layer, table }) => type === 'nat' && table !== ownTable && (table !== 'nat' || layer === 'inet'),
  );
  return new Set(others.flatMap(({ layer }) => layerToFamilies[layer] ?? []));
}

/** nftables' families to those of addresses. */
const layerToFamilies: Readonly<Partial<Record<NftLayer, readonly Family[]>>> = {
  ip: ['ipv4'],
  ip6: ['ipv6'],
  inet: ['ipv4', 'ipv6'],
};

/** A chain with a hook. */
interface HookedChain {
  readonly layer: NftLayer;
  readonly table: string;
  readonly name: string;
  readonly type: string;
  readonly isForward: boolean;
  /** By its policy. */
  readonly isDropping: boolean;
}

async function listHookedChains(limitMs: number): Promise<readonly HookedChain[]> {
  if (!isInPath('nft')) return [];
  return (await askKernel()) ?? (await askNft(limitMs));
}

/** Null where the kernel does not answer, or chains change all the time. */
async function askKernel(): Promise<readonly HookedChain[] | null> {
  try {
    return await withRuleClients(({ short, long }) =>
      readOneMoment(short, async () => (await listChains(long)).flatMap(toHooked), JSON.stringify),
    );
  } catch (error) {
    if (error instanceof VipnatError) return null;
    throw error;
  }
}

function toHooked({ layer, table, name, type, policy, isForward }: NftChain): HookedChain[] {
  if (type === null || layer === null) return [];
  return [{ layer, table, name, type, isForward, isDropping: policy === 'DROP' }];
}

async function askNft(limitMs: number): Promise<readonly HookedChain[]> {
  const words = ['-j', 'list', 'chains'];
  const call = { tool: 'nft', arguments: words, limitMs, isLowPriority: true } as const;
  const { exitCode, stdout, stderr } = await execTool(call);
  if (exitCode !== 0) throw toolFailed({ tool: `nft ${words.join(' ')}`, exitCode, stderr, input: '' });
  return (parseObjects(stdout) as readonly ChainObject[]).flatMap(({ chain }) => {
    if (chain?.type === undefined) return [];
    const { family: layer, table, name, type, hook, policy } = chain;
    return [{ layer, table, name, type, isForward: hook === 'forward', isDropping: policy === 'drop' }];
  });
}

/** As far as it matters here, see libnftables-json(5). */
interface ChainObject {
  readonly chain?: {
    readonly family: NftLayer;
    readonly table: string;
    readonly name: string;
    readonly hook?: string;
    readonly type?: string;
    readonly policy?: string;
  };
}
