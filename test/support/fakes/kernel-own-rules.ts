import { families, type Family } from '../../../lib/address/address.ts';
import { type FakeTable } from '../xtables/tables.ts';

/** The rules that a watch tells from all others, see lib/kernel/watch/own-rules.ts: a text to compare. */
export function printOwnRules(
  read: (family: Family) => readonly [nat: FakeTable | undefined, ownTable: string],
): string {
  const rules = families.map(read).map(([nat, own]) => [
    ['VIPNAT', 'PREROUTING', 'OUTPUT'].map((name) => nat?.get(name)?.rules ?? []),
    // Chains and their hooks are no rules.
    own.match(/^\t\t(?!type ).*$/gm),
  ]);
  return JSON.stringify(rules);
}
