import type { Family } from '../net.ts';
import {
  type ChainSelection,
  type SaveOutput,
  familyToNft,
  ownTable,
  type KernelReading,
  type KernelQuery,
  attempt,
  type Attempt,
  type NftTableOutput,
  type NftProxyOutput,
  type NftFamily,
  iptablesTables,
  orElse,
} from './port.ts';
import { type Toolbox, settleAll, execTool, splitLines } from './tools.ts';
import { type NetlinkQuestioner, withNetlinkClient } from './netlink.ts';
import {
  listChains,
  readTableHandles,
  type NftChain,
  readOneMoment,
  type RawRules,
  readRawRules,
  type RuleClients,
  withRuleClients,
} from './nft-netlink.ts';
import { hasIptables, readIptables } from './iptables.ts';
import { readNftTable, readNftProxy } from './nftables.ts';

/**
 * Reads a few chains of iptables-nft, on a host that has many rules.
 *
 * Goal: a read takes milliseconds and ends, however many foreign rules there are, and however often their owners write.
 * Tension: only iptables-nft knows what its rules mean. iptables-nft-save reads all tables, and begins again at each commit of anybody
 * (1.8.9): with 17,000 rules and seven commits a second it never ends.
 * Compromise: netlink tells the chains, and the bytes of their rules, in a moment. The same bytes mean the same: what iptables-nft has printed
 * of them is remembered. A chain that says something new is listed alone, which takes milliseconds, and counts if the chain did not
 * change meanwhile.
 */

/** Which chains to read, and for how long each tool may take. */
interface ChainSource {
  readonly family: Family;
  readonly selection: ChainSelection;
  readonly limitMs: number;
}

/** Others may change a chain while it is listed; so often in a row they do it all the time. */
const maxRounds = 5;

/** A run of iptables-nft for one chain takes 4 ms, and iptables-nft-save 0.03 ms for each rule (1.8.9). */
const rulesWorthOneRun = 150;

/** Then it begins again and again, and chains are listed one by one instead. */
const saveLimitMs = 2000;

/** What iptables-nft printed of the chains of one family in the last reading. */
export class FewChains {
  readonly #toolbox: Toolbox;
  #texts: ReadonlyMap<string, ChainText> = new Map();

  constructor(toolbox: Toolbox) {
    this.#toolbox = toolbox;
  }

  /**
   * The chains as they were at one moment, in the form of iptables-nft-save. Null where they cannot be read so: without iptables-nft, where
   * it fails for one of them, or where they change all the time. Rejects as execTool and netlink do.
   */
  async read(source: ChainSource): Promise<SaveOutput | null> {
    const { family } = source;
    const list = await this.#toolbox.find(family, 'nft');
    const save = await this.#toolbox.find(family, 'nft', 'save');
    if (list === null || save === null) return null;
    return await withRuleClients((clients) => this.#readWith(clients, source, { list, save }));
  }

  async #readWith(clients: RuleClients, source: ChainSource, tools: ListTools): Promise<SaveOutput | null> {
    const { family, selection } = source;
    for (let round = 0; round < maxRounds; round += 1) {
      const seen = await takeSnapshot(clients, family, selection);
      if (seen === null) return null;
      const unknown = seen.chains.filter((chain) => chain.ruleCount > 0 && !this.#texts.has(toKey(chain)));
      if (unknown.length === 0) {
        this.#forgetOthers(seen.chains);
        return render(family, seen, this.#texts);
      }
      const printed = await listTexts(tools, seen, unknown, source);
      const after = await takeSnapshot(clients, family, selection);
      const unchanged = unknown.filter((chain) => after !== null && hasState(after, chain));
      // Nobody has changed it, and iptables-nft cannot list it all the same.
      if (unchanged.some((chain) => !printed.has(chain))) return null;
      this.#texts = new Map([
        ...this.#texts,
        ...unchanged.map((chain) => [toKey(chain), printed.get(chain) ?? null] as const),
      ]);
    }
    return null;
  }

  #forgetOthers(chains: readonly SeenChain[]): void {
    const keys = new Set(chains.map(toKey));
    this.#texts = new Map([...this.#texts].filter(([key]) => keys.has(key)));
  }
}

/** Those that iptables-nft-save tells sooner than so many runs, by one run of it. */
async function listTexts(
  tools: ListTools,
  { unlistedRules, chains }: ChainSnapshot,
  unknown: readonly SeenChain[],
  { selection, limitMs }: ChainSource,
): Promise<Map<SeenChain, ChainText>> {
  const rules = unlistedRules + chains.reduce((sum, { ruleCount }) => sum + ruleCount, 0);
  // It reads all tables, and nothing is known of those that are not wanted.
  const isSaveShorter = selection.tables === undefined && rules < unknown.length * rulesWorthOneRun;
  const saved = isSaveShorter
    ? await saveChainTexts(tools, unknown, { limitMs: Math.min(limitMs, saveLimitMs) }).catch(() => new Map())
    : new Map<SeenChain, ChainText>();
  const rest = unknown.filter((chain) => !saved.has(chain));
  return new Map([...saved, ...(await listChainTexts(tools, rest, { limitMs }))]);
}

function toKey({ table, name, digest }: SeenChain): string {
  return `${table} ${name} ${digest}`;
}

function hasState({ chains }: ChainSnapshot, chain: SeenChain): boolean {
  return chains.some((one) => toKey(one) === toKey(chain) && one.handles === chain.handles);
}

function render(
  family: Family,
  { tables, chains, unlistedRules }: ChainSnapshot,
  texts: ReadonlyMap<string, ChainText>,
): SaveOutput {
  const blocks = tables.map((table) => {
    const own = chains.filter((chain) => chain.table === table);
    if (own.some((chain) => texts.get(toKey(chain)) === null)) {
      return `# Table \`${table}' is incompatible, use 'nft' tool.\n`;
    }
    const declared = own.map(({ name, policy }) => `:${name} ${policy ?? '-'} [0:0]`);
    const rules = own.map((chain) => texts.get(toKey(chain)) ?? '').filter((text) => text !== '');
    return `${[`*${table}`, ...declared, ...rules, 'COMMIT'].join('\n')}\n`;
  });
  return { family, dialect: 'nft', text: blocks.join(''), unlistedRules };
}

/** What nftables holds of one family, iptables-nft's part included, before a tool is asked. */
interface Survey {
  /** Whether tools would take long to list all rules. */
  readonly isLarge: boolean;
  /** Whether there can be a table that is vipnat's, or kube-proxy's. */
  readonly hasTable: Readonly<Record<'vipnat' | 'kube-proxy', boolean>>;
}

/** iptables-nft-save takes 8 ms for so many (1.8.9): it ends between two commits, also where there are fifty a second. */
const fewRules = 250;

/** Where nothing can be known, tools are asked for everything: they can say what is wrong. */
const unsurveyed: Survey = { isLarge: false, hasTable: { vipnat: true, 'kube-proxy': true } };

/** Surveys the host's rules, in a millisecond for each thousand chains. Never rejects: without an answer there is nothing to be spared. */
async function surveyRules(family: Family): Promise<Survey> {
  const sample = async (client: NetlinkQuestioner): Promise<Survey> => {
    const chains = await listChains(client, familyToNft[family]);
    if (chains.reduce((sum, { use }) => sum + use, 0) <= fewRules) return unsurveyed;
    const hasHandle = async (name: string) => (await readTableHandles(client, name))[family] !== null;
    return {
      isLarge: true,
      hasTable: { vipnat: await hasHandle(ownTable), 'kube-proxy': await hasHandle('kube-proxy') },
    };
  };
  return await orElse(withNetlinkClient('netfilter', sample, true), unsurveyed);
}

/** What a reading tells of rules. */
type RulesRead = Pick<KernelReading, 'iptables' | 'nftTables' | 'nftProxies' | 'unread'>;

/** Reads rules through the tools, and remembers what they printed of chains that stay as they are. */
export class RuleReader {
  readonly #toolbox: Toolbox;
  readonly #limitMs: number;
  readonly #few: Readonly<Record<Family, FewChains>>;

  /** Each tool may take `limitMs`. */
  constructor(toolbox: Toolbox, limitMs: number) {
    this.#toolbox = toolbox;
    this.#limitMs = limitMs;
    this.#few = { ipv4: new FewChains(toolbox), ipv6: new FewChains(toolbox) };
  }

  /** Rejects with nothing that a tool fails for: that is unread. */
  async read(query: KernelQuery): Promise<RulesRead> {
    const read = await settleAll(query.families.map((family) => this.#readFamily(family, query)));
    const parts = [
      read.flatMap(({ saves }) => saves),
      read.map(({ table }) => table),
      read.map(({ proxy }) => proxy),
    ] as const;
    const [saves, tables, proxies] = parts;
    return {
      iptables: listFound(saves),
      nftTables: listFound(tables),
      nftProxies: listFound(proxies),
      unread: parts.flatMap((attempts) => attempts.flatMap(({ unread }) => unread)),
    };
  }

  async #readFamily(
    family: Family,
    { dialects, nftServiceChain: serviceChain, chains: selection }: KernelQuery,
  ): Promise<FamilyRules> {
    const { isLarge, hasTable } = selection === undefined ? unsurveyed : await surveyRules(family);
    const limitMs = this.#limitMs;
    const source = { family, limitMs };
    const quick =
      isLarge && selection !== undefined ? () => this.#few[family].read({ ...source, selection }) : undefined;
    const saves = dialects
      .filter(() => hasIptables(family))
      .map((dialect) =>
        readIptables(this.#toolbox, { ...source, dialect }, dialect === 'nft' ? quick : undefined),
      );
    const where = { family, dialect: 'nftables' } as const;
    const table = attempt(readNftTable(family, limitMs, hasTable.vipnat), { ...where, tables: ['vipnat'] });
    const proxy = attempt(hasTable['kube-proxy'] ? readNftProxy({ ...source, serviceChain }) : nothing, {
      ...where,
      tables: ['kube-proxy'],
    });
    // One that fails must not leave the other tools' children running when this rejects.
    await Promise.allSettled([...saves, table, proxy]);
    return { saves: await Promise.all(saves), table: await table, proxy: await proxy };
  }
}

const nothing = Promise.resolve(null);

interface FamilyRules {
  readonly saves: readonly Attempt<SaveOutput | null>[];
  readonly table: Attempt<NftTableOutput | null>;
  readonly proxy: Attempt<NftProxyOutput | null>;
}

function listFound<T>(attempts: readonly Attempt<T | null>[]): T[] {
  return attempts.flatMap(({ found }) => (found === null ? [] : [found]));
}

/** What iptables-nft prints of a chain's rules; null of one that has rules which it cannot show. */
type ChainText = string | null;

/** The names of the tools of one family. */
interface ListTools {
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
async function listChainTexts(
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
async function saveChainTexts(
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
interface SeenChain extends Pick<NftChain, 'table' | 'name' | 'policy'> {
  readonly ruleCount: number;
  /** The handles of its rules: a rule that is written again has another text, also where it says the same. */
  readonly handles: string;
  /** What its rules say, as a text to compare: the same for chains of this name that say the same. */
  readonly digest: string;
}

/** The chains that are wanted, as they were at one moment. */
interface ChainSnapshot {
  /** The tables that there are, of those that vipnat reads. */
  readonly tables: readonly string[];
  readonly chains: readonly SeenChain[];
  /** About how many rules these tables have in all other chains. */
  readonly unlistedRules: number;
}

/** A part of a list of the kernel's usual size holds a few rules of kube-proxy. */
const longChain = 50;

/**
 * The wanted chains of one family at one moment; null where they did not hold still. Rejects with NETLINK_FAILED or
 * TOOL_NOT_PERMITTED.
 */
async function takeSnapshot(
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
