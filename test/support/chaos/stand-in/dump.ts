import { families } from '../../../../lib/address/address.ts';
import { iptablesDialects } from '../../../../lib/kernel/port.ts';
import { toolName } from '../../../../lib/kernel/tools/tool-name.ts';
import type { Host } from './host.ts';

/** The world's own tables: how an apiserver is blackholed, see apiserver-faults.ts. */
const worldTable = 'chaos';

/** The tables that iptables-nft has in nft, which its own save tools print. */
const iptablesTables = /^table ip6? (?:filter|nat|mangle|raw|security) /;

const dumpScript = [
  ...families
    .flatMap((family) => iptablesDialects.map((dialect) => toolName(family, dialect, 'save')))
    .map((tool) => `echo "== ${tool}"; ${tool}`),
  'echo "== nft"; nft --stateless list ruleset',
].join('\n');

/** Every rule, chain, policy and table of a host, of all backends and families, as the tools print them. */
export function dumpHost(host: Host): Promise<string> {
  return host.shell(dumpScript);
}

/** Whether anything of vipnat's is in a dump: its chains, tables, hooks and rules have its name, and no stranger's are like it. */
export function hasTraces(dump: string): boolean {
  return /\bVIPNAT\b|"vipnat:|table \S+ vipnat/.test(dump);
}

/**
 * The foreign part of a dump, a line for each chain with its rules in order, sorted by chain. It does not tell an empty table of
 * the kernel's own chains from none: whoever looks at a table makes it.
 */
export function listForeign(dump: string): string[] {
  const [saves = '', ruleset = ''] = dump.split('== nft\n');
  return [...listSavedChains(saves), ...listForeignTables(ruleset)].sort();
}

/** How the foreign parts of two dumps differ: a sentence for each chain, none when they are equal. */
export function compareForeign(found: readonly string[], wanted: readonly string[]): string[] {
  const [isFound, isWanted] = [new Set(found), new Set(wanted)];
  return [
    ...wanted.filter((chain) => !isFound.has(chain)).map((chain) => `foreign rules are missing: ${chain}`),
    ...found.filter((chain) => !isWanted.has(chain)).map((chain) => `foreign rules are new: ${chain}`),
  ];
}

function listSavedChains(saves: string): string[] {
  const chainToRules = new Map<string, string[]>();
  let place = '';
  let table = '';
  for (const line of saves.split('\n')) {
    if (line.startsWith('== ')) place = line.slice(3);
    else if (line.startsWith('*')) table = line;
    else if (line.startsWith(':')) addChain(chainToRules, `${place} ${table} `, line);
    else if (line.startsWith('-A ') && !isOwn(line)) {
      chainToRules.get(`${place} ${table} ${line.split(' ')[1] ?? ''}`)?.push(line);
    }
  }
  return [...chainToRules]
    .filter(([chain, [policy, ...rules]]) => !isOwn(chain) && (policy !== 'ACCEPT' || rules.length > 0))
    .map(([chain, [policy, ...rules]]) => [`${chain} (${policy ?? ''})`, ...rules].join('\n    '));
}

/** `:INPUT ACCEPT [0:0]`: the first of a chain's lines is its policy. */
function addChain(chainToRules: Map<string, string[]>, place: string, line: string): void {
  const [name = '', policy = ''] = line.slice(1).split(' ');
  chainToRules.set(`${place}${name}`, [policy]);
}

function isOwn(text: string): boolean {
  return /\bVIPNAT(?:-|\b)|"vipnat:/.test(text);
}

function listForeignTables(ruleset: string): string[] {
  const tables = ruleset.match(/^table [^]*?^\}/gm) ?? [];
  const own = new RegExp(`^table \\S+ (?:vipnat|${worldTable}) `);
  return tables.filter((table) => !iptablesTables.test(table) && !own.test(table));
}
