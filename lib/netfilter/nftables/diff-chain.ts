import { compareChain, type IsKnownRendering } from '../rules/compare-chain.ts';
import { type Drift } from '../rules/drift.ts';
import { type NftChange } from './change.ts';
import { nftLanguage } from './language.ts';
import { type NftChain } from './ruleset.ts';

/** Where a chain is: the table with its family (`ip vipnat`), and its name. */
export interface ChainPlace {
  readonly table: string;
  readonly name: string;
}

/** Compares a chain with what it should hold; its hook is right. Any other difference has its rules written anew. */
export function diffChain(
  { table, name }: ChainPlace,
  { hook, rules }: NftChain,
  seen: NftChain | undefined,
  isKnownRendering: IsKnownRendering,
): { drift: readonly Drift[]; changes: readonly NftChange[] } {
  const add = rules.map((rule): NftChange => ({
    kind: 'add-rule',
    name,
    command: `add rule ${table} ${name} ${rule}`,
  }));
  if (seen === undefined) {
    const message = `chain ${name} does not exist`;
    const base = hook === null ? '' : ` { ${hook} }`;
    const create: NftChange = { kind: 'add-chain', name, command: `add chain ${table} ${name}${base}` };
    return { drift: [{ kind: 'missing-chain', chain: name, message }], changes: [create, ...add] };
  }
  const wanted = rules.map((text) => ({ id: nftLanguage.readComment(text) ?? '', text }));
  const drift = compareChain({ chain: name, wanted, seen: seen.rules, isKnownRendering }, nftLanguage);
  if (drift.length === 0) return { drift, changes: [] };
  const flush: NftChange = { kind: 'flush-chain', name, command: `flush chain ${table} ${name}` };
  return { drift, changes: [flush, ...add] };
}
