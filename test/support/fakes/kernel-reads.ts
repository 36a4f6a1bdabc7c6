import {
  type SaveOutput,
  type ChainSelection,
  type IptablesDialect,
  type NftProxyOutput,
  type KernelQuery,
  type KernelReading,
  type Attempt,
  type NftTableOutput,
  toolName,
  attempt,
  iptablesTables,
  toUnread,
} from '../../../lib/kernel/port.ts';
import { parseSave, type Table, parseRule } from '../../../lib/iptables/rules.ts';
import type { FakeFaults } from './kernel-faults.ts';
import type { Family } from '../../../lib/net.ts';
import { VipnatError } from '../../../lib/errors.ts';

/** As lib/kernel/few-chains.ts has it. */
const fewRules = 250;

/** What the real kernel reads of iptables-nft where a host has many rules: the wanted chains, and a count of the rules in others. */
function readFewChains(output: SaveOutput, selection: ChainSelection): SaveOutput {
  if ((output.text.match(/^-A /gm)?.length ?? 0) <= fewRules) return output;
  const { tables } = parseSave(output);
  const parts = [...tables].map(([name, table]) => ({ name, table, wanted: listWanted(table, selection) }));
  const blocks = parts.map(({ name, table, wanted }) => {
    const declared = wanted.map((chain) => output.text.match(declaration(name, chain))?.[1] ?? '');
    const rules = wanted.flatMap((chain) => (table.get(chain) ?? []).map((rule) => `-A ${chain} ${rule}`));
    return `${[`*${name}`, ...declared, ...rules, 'COMMIT'].join('\n')}\n`;
  });
  const unlistedRules = parts
    .flatMap(({ table, wanted }) => [...table].filter(([chain]) => !wanted.includes(chain)))
    .reduce((sum, [, rules]) => sum + rules.length, 0);
  return { ...output, text: blocks.join(''), unlistedRules };
}

function declaration(table: string, chain: string): RegExp {
  return new RegExp(`^\\*${table}\\n(?:(?!COMMIT\\n).*\\n)*?(:${chain.replaceAll('.', '\\.')} .*)$`, 'm');
}

function listWanted(table: Table, { names, prefixes, referred }: ChainSelection): string[] {
  const hasPrefix = (name: string, some: readonly string[]) => some.some((prefix) => name.startsWith(prefix));
  const listTargets = (chain: string) => (table.get(chain) ?? []).map((rule) => parseRule(rule).target ?? '');
  const all = [...table.keys()];
  const named = all.filter((name) => names.includes(name) || hasPrefix(name, prefixes));
  const targets = new Set(named.flatMap(listTargets));
  return all.filter(
    (name) =>
      named.includes(name) ||
      (targets.has(name) && hasPrefix(name, referred)) ||
      listTargets(name).some((target) => hasPrefix(target, prefixes)),
  );
}

/** What a FakeKernel shows to its tools. */
interface ShownRules {
  readonly faults: FakeFaults;
  readonly hasIptables: boolean;
  show(family: Family, dialect: IptablesDialect): string;
  showNft(family: Family): string;
  showNftProxy(family: Family, serviceChain: string): NftProxyOutput | null;
}

/** The rules that its tools tell, one tool after the other, and those that they fail to. */
export async function readRules(
  shown: ShownRules,
  { families, dialects, nftServiceChain, chains }: KernelQuery,
): Promise<Pick<KernelReading, 'iptables' | 'nftTables' | 'nftProxies' | 'unread'>> {
  const saves: Attempt<SaveOutput>[] = [];
  for (const family of families.filter(() => shown.hasIptables))
    for (const dialect of dialects) saves.push(await readIptables(shown, family, dialect));
  const tables: Attempt<NftTableOutput>[] = [];
  const proxies: Attempt<NftProxyOutput | null>[] = [];
  for (const family of families) {
    const { table, proxy } = await readNft(shown, family, nftServiceChain);
    tables.push(table);
    proxies.push(proxy);
  }
  return {
    iptables: saves
      .flatMap(({ found }) => found ?? [])
      .map((save) => (save.dialect === 'nft' && chains !== undefined ? readFewChains(save, chains) : save)),
    nftTables: tables.flatMap(({ found }) => found ?? []),
    nftProxies: proxies.flatMap(({ found }) => found ?? []),
    unread: [...saves, ...tables, ...proxies].flatMap(({ unread }) => unread),
  };
}

async function readIptables(
  shown: ShownRules,
  family: Family,
  dialect: IptablesDialect,
): Promise<Attempt<SaveOutput>> {
  const tool = toolName(family, dialect, 'save');
  const whole = await attempt(save(shown, family, dialect), { family, dialect, tables: iptablesTables });
  const spoilt = shown.faults.findSpoilt(tool);
  const table = iptablesTables.find((one) => one === spoilt?.table);
  if (table === undefined || whole.found === null) return whole;
  const text = withoutTable(whole.found.text, table);
  if (spoilt?.how === 'incompatible') {
    const remark = `# Table \`${table}' is incompatible, use 'nft' tool.\n`;
    return { found: { family, dialect, text: `${remark}${text}` }, unread: [] };
  }
  const error = new VipnatError('TOOL_FAILED', `${tool} failed for the table ${table}`);
  return {
    found: { family, dialect, text },
    unread: [toUnread({ family, dialect, tables: [table] }, error)],
  };
}

async function save(shown: ShownRules, family: Family, dialect: IptablesDialect): Promise<SaveOutput> {
  const tool = toolName(family, dialect, 'save');
  await shown.faults.meet(tool);
  return { family, dialect, text: shown.faults.takeGarbage(tool) ?? shown.show(family, dialect) };
}

async function readNft(
  shown: ShownRules,
  family: Family,
  serviceChain: string,
): Promise<{ table: Attempt<NftTableOutput>; proxy: Attempt<NftProxyOutput | null> }> {
  const met = shown.faults.meet('nft').then(() => shown.faults.takeGarbage('nft'));
  const readTable = async () => ({ family, text: (await met) ?? shown.showNft(family) });
  const readProxy = async () => {
    if ((await met) === null) return shown.showNftProxy(family, serviceChain);
    throw new VipnatError('TOOL_OUTPUT_UNEXPECTED', 'nft -j printed something other than its JSON');
  };
  const [table, proxy] = await Promise.all([
    attempt(readTable(), { family, dialect: 'nftables', tables: ['vipnat'] }),
    attempt(readProxy(), { family, dialect: 'nftables', tables: ['kube-proxy'] }),
  ]);
  return { table, proxy };
}

function withoutTable(text: string, table: string): string {
  const parts = text.split(/^(?=# Generated)/m);
  return parts.filter((part) => !part.includes(`\n*${table}\n`)).join('');
}
