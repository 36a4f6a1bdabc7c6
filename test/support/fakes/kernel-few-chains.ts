import { type ChainSelection, type SaveOutput } from '../../../lib/kernel/port.ts';
import { parseSave } from '../../../lib/netfilter/iptables/parse.ts';
import { parseRule } from '../../../lib/netfilter/iptables/rule.ts';
import { type Table } from '../../../lib/netfilter/iptables/ruleset.ts';

/** As lib/kernel/real/survey.ts has it. */
const fewRules = 250;

/** What the real kernel reads of iptables-nft where a host has many rules: the wanted chains, and a count of the rules in others. */
export function readFewChains(output: SaveOutput, selection: ChainSelection): SaveOutput {
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

/** The line that declares a chain, within its table. */
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
