import {
  type SaveOutput,
  type Attempt,
  attempt,
  iptablesTables,
  type IptablesDialect,
  iptablesDialects,
  familyToNft,
  type Transaction,
  toolName,
} from './port.ts';
import {
  type FindTool,
  settleAll,
  createToolFinder,
  isInPath,
  runTool,
  type ToolCommand,
  execTool,
  toolMissing,
  type RunTool,
  toolNotPermitted,
} from './tools.ts';
import { VipnatError, orElse } from '../errors.ts';
import { type NftLayer, type NftChain, listChains, hasChain, hookNumbers } from './nft-netlink.ts';
import { withNetlinkClient } from './netlink.ts';
import { type Family, families, refusedPorts } from '../net.ts';
import { isNftName, listNftTable, runNft, parseObjects } from './nftables.ts';
import { readFile } from 'node:fs/promises';

/** Reads what is wanted more quickly than the save tool; null where it cannot. */
type QuickReading = () => Promise<SaveOutput | null>;

/**
 * What one dialect has for one family, by the quick reading if there is one, or by one run of its save tool. A tool that fails is run
 * once more for each table that vipnat reads. Most likely it lacks a match for some rule: its output then does not show whether
 * later tables exist. Null where there is nothing to read.
 */
export async function readIptables(
  findTool: FindTool,
  { family, dialect, limitMs }: RawSource,
  readQuickly?: QuickReading,
): Promise<Attempt<SaveOutput | null>> {
  const quick = await attempt(tryQuickly(readQuickly), { family, dialect, tables: iptablesTables });
  if (quick.found !== null || quick.unread.length > 0) return quick;
  const source = { family, dialect, limitMs };
  const whole = await attempt(saveIptables(findTool, source), { family, dialect, tables: iptablesTables });
  if (whole.unread[0]?.code !== 'TOOL_FAILED') return whole;
  const parts = await settleAll(
    iptablesTables.map((table) =>
      attempt(saveIptables(findTool, { ...source, table }), { family, dialect, tables: [table] }),
    ),
  );
  const unread = parts.flatMap((part) => part.unread);
  if (unread.length === parts.length) return whole;
  return { found: { family, dialect, text: parts.map((part) => part.found?.text ?? '').join('') }, unread };
}

/**
 * What the quick reading answers. Null where there is none, or it cannot read: the save tool then reports the cause. Rejects with
 * TOOL_TIMED_OUT: the save tool would take as long again.
 */
export async function tryQuickly(read: QuickReading | undefined): Promise<SaveOutput | null> {
  try {
    return (await read?.()) ?? null;
  } catch (error) {
    if (error instanceof VipnatError && error.code !== 'TOOL_TIMED_OUT') return null;
    throw error;
  }
}

/** What a tool printed of foreign rules that packets pass. */
export type ForeignRules =
  /** `iptables-save -t raw`. */
  | ({ readonly kind: 'iptables' } & SaveOutput)
  /** `nft -n -t list table`. */
  | { readonly kind: 'nftables'; readonly table: string; readonly text: string };

/** NF_IP_PRI_CONNTRACK of linux/netfilter_ipv4.h: hooks before it see packets that are not tracked yet. */
const trackingPriority = -200;

/** Families of nftables whose hooks see packets of TCP connections. */
const layers: readonly (NftLayer | null)[] = ['ip', 'ip6', 'inet'];

/**
 * All rules that packets pass before connections are tracked: they may keep packets from that. A tool is started only for tables that have rules there: on most hosts for none. Rejects as these tools do, and without
 * CAP_NET_ADMIN with TOOL_NOT_PERMITTED.
 */
export async function readEarlyRules(limitMs = 10_000): Promise<readonly ForeignRules[]> {
  const chains = (await listHookedChains()).filter(
    ({ use, priority }) => use > 0 && priority !== null && priority < trackingPriority,
  );
  const findTool = createToolFinder(limitMs);
  const rawLayers = chains.filter(({ table }) => table === 'raw').map(({ layer }) => layer);
  const saves = families.flatMap((family) =>
    iptablesDialects
      .filter((dialect) => dialect === 'legacy' || rawLayers.includes(familyToNft[family]))
      .map((dialect) => saveRaw(findTool, { family, dialect, limitMs })),
  );
  const ofNft = chains.filter(({ layer, table }) => table !== 'raw' || layer === 'inet');
  return (await settleAll([...saves, ...listTables(ofNft, limitMs)])).filter((one) => one !== null);
}

/**
 * The rules of nftables that packets to this host pass, but for those that iptables shows, and kube-proxy's: these can be many. Rejects as
 * readEarlyRules does.
 */
export async function readInputRules(limitMs = 10_000): Promise<readonly ForeignRules[]> {
  const chains = (await listHookedChains()).filter(
    ({ layer, table, type, hook }) =>
      hook === hookNumbers.input &&
      type === 'filter' &&
      (layer === 'inet' || ![...iptablesTables, 'raw', 'security', 'kube-proxy'].includes(table)),
  );
  return await settleAll(listTables(chains, limitMs));
}

function listTables(chains: readonly NftChain[], limitMs: number): Promise<ForeignRules>[] {
  const tables = new Set(
    chains.filter(({ table }) => isNftName(table)).map(({ layer, table }) => `${layer ?? ''} ${table}`),
  );
  const list = async (table: string): Promise<ForeignRules> => {
    return { kind: 'nftables', table, text: await listNftTable(table, ['-t'], limitMs) };
  };
  return isInPath('nft') ? [...tables].map(list) : [];
}

/** With a hook, and not vipnat's. None on a kernel without nf_tables. */
async function listHookedChains(): Promise<readonly NftChain[]> {
  try {
    const all = await withNetlinkClient('netfilter', (client) => listChains(client), true);
    return all.filter(
      ({ layer, type, table }) => layers.includes(layer) && type !== null && !table.startsWith('vipnat'),
    );
  } catch (error) {
    if (error instanceof VipnatError && error.code !== 'TOOL_NOT_PERMITTED') return [];
    throw error;
  }
}

/** Null on a host without this iptables. */
async function saveRaw(findTool: FindTool, source: RawSource): Promise<ForeignRules | null> {
  if ((await findTool(source.family, source.dialect, 'save')) === null) return null;
  const saved = await saveIptables(findTool, { ...source, table: 'raw' });
  return saved === null ? null : { kind: 'iptables', ...saved };
}

/**
 * What one backend's save tool prints for one family. A backend that holds no table is never touched by it, and its
 * text is empty. Null on a host that runs legacy only, for nft. All tables where none is named.
 */
export async function saveIptables(
  findTool: FindTool,
  source: RawSource & { readonly table?: string },
): Promise<SaveOutput | null> {
  const { family, dialect, limitMs, table } = source;
  if (dialect === 'legacy' && !(await hasLegacyTables(family, table))) return { family, dialect, text: '' };
  const tool = await findSave(findTool, family, dialect);
  if (tool === null) return null;
  const words = table === undefined ? [] : ['-t', table];
  return { family, dialect, text: await runTool({ tool, arguments: words, limitMs, isLowPriority: true }) };
}

interface RawSource extends Pick<SaveOutput, 'family' | 'dialect'> {
  readonly limitMs: number;
}

/** A transaction for a dialect of iptables. */
export type IptablesTransaction = Transaction & { readonly dialect: IptablesDialect };

/** Whether a transaction is one. */
export function isForIptables(transaction: Transaction): transaction is IptablesTransaction {
  return transaction.dialect !== 'nftables';
}

/**
 * Whether an iptables of this family is installed, of whichever backend; so to speak also where nft is missing too:
 * reading then says what to install.
 */
export function hasIptables(family: Family): boolean {
  if (!isInPath('nft')) return true;
  const plain = family === 'ipv6' ? 'ip6tables-save' : 'iptables-save';
  return [plain, ...iptablesDialects.map((dialect) => toolName(family, dialect, 'save'))].some(isInPath);
}

/** What restores rules of one family and dialect; null where it is not installed. */
export async function findRestore(
  findTool: FindTool,
  { family, dialect }: Pick<IptablesTransaction, 'family' | 'dialect'>,
): Promise<ToolCommand | null> {
  const tool = await findTool(family, dialect, 'restore');
  // Legacy waits up to 5 s for the lock that everybody shares, then exits with 4; nft has no lock and takes the flag.
  return tool === null ? null : { tool, arguments: ['--noflush', '-w', '5'] };
}

/** Runs one restore script: all of a table's lines take effect at its COMMIT, or none. */
export async function restoreIptables(
  findTool: FindTool,
  { family, dialect, input }: IptablesTransaction,
  { limitMs, run = execTool }: { readonly limitMs: number; readonly run?: RunTool },
): Promise<void> {
  const restore = await findRestore(findTool, { family, dialect });
  if (restore === null) throw toolMissing(toolName(family, dialect, 'restore'));
  if (dialect === 'nft') await makeBaseChains(family, input, limitMs);
  await runTool({ ...restore, input, limitMs }, run);
}

/** Null on a host that runs legacy only; with neither backend's tool we would be blind. */
async function findSave(
  findTool: FindTool,
  family: Family,
  dialect: IptablesDialect,
): Promise<string | null> {
  const tool = await findTool(family, dialect, 'save');
  if (tool !== null) return tool;
  const isLegacyOnly = dialect === 'nft' && (await findTool(family, 'legacy', 'save')) !== null;
  if (!isLegacyOnly) throw toolMissing(toolName(family, dialect, 'save'));
  return null;
}

/** Asking iptables-legacy for a table creates it, and with it a second set of hooks that every packet passes: ask the kernel first. */
async function hasLegacyTables(family: Family, table?: string): Promise<boolean> {
  const path = `/proc/net/${familyToNft[family]}_tables_names`;
  try {
    const names = (await readFile(path, 'utf8')).split('\n').filter((name) => name !== '');
    return table === undefined ? names.length > 0 : names.includes(table);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return false;
    throw toolNotPermitted(`reading ${path}`, code ?? 'unknown');
  }
}

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
 * leaves those that are there as they are. iptables-nft would make them itself, but always with the policy ACCEPT. It keeps
 * that policy when another program's restore has made them a moment before, with DROP (seen with 1.8.9). A repair of vipnat's between
 * the flush and the restore of a firewall would then leave it open. If nft is missing or fails, iptables-nft makes the chains.
 * Where all chains are there, which the kernel says in a moment, no nft is started: it reads all chains of the host first, and again
 * after each commit of anybody.
 */
async function makeBaseChains(family: Family, input: string, limitMs: number): Promise<void> {
  const missing = await listMissing(family, listBaseChains(input));
  if (missing.length === 0) return;
  await orElse(runNft(renderBaseChains(family, missing), Math.min(limitMs, maxMs)), undefined);
}

/** A chain of the kernel's, and where it is. */
interface BaseChain {
  readonly table: string;
  readonly name: string;
  /** As nft declares it, without a policy, so that none is changed. */
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

/** The script by which nft makes them. Pure. */
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
  const asking = withNetlinkClient('netfilter', async (client) => {
    const missing: BaseChain[] = [];
    for (const chain of chains) {
      if (!(await hasChain(client, { ...chain, family: familyToNft[family] }))) missing.push(chain);
    }
    return missing;
  });
  return await orElse(asking, chains);
}

/** The rule of a drained host, in a table of its own that holds nothing else. Both methods reject with TOOL_MISSING, TOOL_NOT_PERMITTED or TOOL_FAILED. */
export interface DrainRule {
  /** The apiservers' ports at which drain checks are refused, ascending; null for a table that refuses otherwise. Empty where there is none. */
  read(): Promise<readonly number[] | null>;
  /** Has drain checks refused at these ports and at no others; without any, removes the table. All of it takes effect, or nothing. */
  write(ports: readonly number[]): Promise<void>;
}

/** The table's name with its family. Whatever it holds is vipnat's. */
export const drainTable = 'inet vipnat-drain';

const limitMs = 15_000;

/** That of this network namespace. Takes nft: also a host whose other rules are in iptables-legacy has nf_tables for it. */
export function createDrainRule(): DrainRule {
  return {
    async read() {
      if (!isInPath('nft')) throw toolMissing('nft');
      const text = await listNftTable(drainTable, ['-j'], limitMs);
      return text === '' ? [] : parseDrainTable(text);
    },
    async write(ports) {
      await runNft(renderDrainTable(ports), limitMs);
    },
  };
}

/** The script for nft, for people too. Pure. */
export function renderDrainTable(ports: readonly number[]): string {
  // What is not there cannot be deleted: so it is added first.
  const removal = `add table ${drainTable}\ndelete table ${drainTable}\n`;
  if (ports.length === 0) return removal;
  const { first, last } = refusedPorts;
  const rules = ports.map(
    (port) => `    tcp dport ${port} tcp sport ${first}-${last} reject with tcp reset\n`,
  );
  return `${removal}table ${drainTable} {
  chain input {
    type filter hook input priority -10; policy accept;
${rules.join('')}  }
}
`;
}

/** What `nft -j list table` printed; null where it is not as renderDrainTable has it. */
function parseDrainTable(text: string): readonly number[] | null {
  const objects = parseObjects(text);
  const chains = objects.flatMap(({ chain }) => (isRecord(chain) ? [chain] : []));
  const rules = objects.flatMap(({ rule }) => (isRecord(rule) ? [JSON.stringify(rule['expr'])] : []));
  const isOwn = chains.length === 1 && chains[0]?.['hook'] === 'input' && chains[0]['policy'] === 'accept';
  const ports = rules.map((rule) => Number(/"right": ?(\d+)/.exec(rule)?.[1]));
  return isOwn && ports.every((port, index) => rules[index] === printRule(port))
    ? ports.toSorted((one, other) => one - other)
    : null;
}

/** As nft 1.0.6 to 1.1.7 print it. */
function printRule(port: number): string {
  const match = (field: string, right: unknown) => ({
    match: { op: '==', left: { payload: { protocol: 'tcp', field } }, right },
  });
  const range = { range: [refusedPorts.first, refusedPorts.last] };
  return JSON.stringify([match('dport', port), match('sport', range), { reject: { type: 'tcp reset' } }]);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
