/** What is whose in the rules of a whole host, as the tools print them. */
import { families } from '../../../lib/net.ts';
import { iptablesDialects, toolName } from '../../../lib/kernel/port.ts';
import { listForeignChains, readChains } from './printed-rules.ts';

/** The tables that iptables-nft has in nft, which its own save tools print. */
const iptablesTables = /^table ip6? (?:filter|nat|mangle|raw|security) /;

/** Prints every rule, chain, policy and table of a host, of all dialects and families. */
export const dumpScript = [
  ...families
    .flatMap((family) => iptablesDialects.map((dialect) => toolName(family, dialect, 'save')))
    .map((tool) => `echo "== ${tool}"; ${tool}`),
  'echo "== nft"; nft --stateless list ruleset',
].join('\n');

/** The lines of a dump with anything of vipnat's: its chains, tables, hooks and rules have its name, and no stranger's are like it. */
export function listTraces(dump: string): string[] {
  return dump.split('\n').filter((line) => /\bVIPNAT\b|"vipnat:|table \S+ vipnat/.test(line));
}

/**
 * The foreign part of a dump, a text for each chain with its rules in order, sorted by chain; without the tables of nft that
 * `isLeftOut` names. It does not tell an empty table of the kernel's own chains from none: whoever looks at a table makes it.
 */
export function listForeign(dump: string, isLeftOut: (table: string) => boolean): string[] {
  const [saves = '', ruleset = ''] = dump.split('== nft\n');
  const [, ...blocks] = saves.split(/^== /m);
  const chains = blocks.flatMap((block) => {
    const [tool = ''] = block.split('\n', 1);
    return describeForeign(tool, block);
  });
  const tables = (ruleset.match(/^table [^]*?^\}/gm) ?? []).filter((table) => {
    const [name = ''] = table.split(' {', 1);
    return !iptablesTables.test(table) && !/^table \S+ vipnat$/.test(name) && !isLeftOut(name);
  });
  return [...chains, ...tables].sort();
}

/**
 * The foreign chains in what one save tool prints, of those that `isForeign` takes for such by a rule or a jump to them. Those of the
 * kernel's that are as it made them are none.
 */
export function describeForeign(
  tool: string,
  save: string,
  isForeign: (rule: string) => boolean = () => true,
): string[] {
  return listForeignChains(readChains(save))
    .map(({ rules, ...printed }) => ({ ...printed, rules: rules.filter(isForeign) }))
    .filter(
      ({ chain, policy, rules }) => isForeign(`-j ${chain}`) && (policy !== 'ACCEPT' || rules.length > 0),
    )
    .map(({ table, chain, policy, rules }) => describeChain(`${tool} *${table} ${chain}`, policy, rules));
}

export function describeChain(place: string, policy: string, rules: readonly string[]): string {
  return [`${place} (${policy})`, ...rules].join('\n    ');
}

/** How foreign chains differ from what they have to be: a sentence for each, none when they are equal. */
export function compareForeign(found: readonly string[], wanted: readonly string[]): string[] {
  const [isFound, isWanted] = [new Set(found), new Set(wanted)];
  return [
    ...wanted.filter((chain) => !isFound.has(chain)).map((chain) => `foreign rules are missing: ${chain}`),
    ...found.filter((chain) => !isWanted.has(chain)).map((chain) => `foreign rules are new: ${chain}`),
  ];
}
