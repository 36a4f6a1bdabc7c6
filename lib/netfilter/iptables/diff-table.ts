import { type Change } from './change.ts';
import { type Diff, diffOwnChain } from './diff-chain.ts';
import { deleteRules, diffHook, type HookContext } from './diff-hook.ts';
import { isOwnChain, isOwnRule } from './identity.ts';
import { type WantedTable } from './render.ts';
import { type Table } from './ruleset.ts';

/**
 * The changes that turn what a table holds of ours into what it should hold, in an order in which one restore
 * can make them: chains are filled, stale hooks go, new ones come, and last the chains nobody refers to any
 * more are deleted. Foreign chains keep their rules and the order of these (I5). Empty when in sync (I7).
 */
export function diffTable(wanted: WantedTable, seen: Table | undefined, context: HookContext): Diff {
  const table: Table = seen ?? new Map<string, readonly string[]>();
  const chains = [...wanted.chains].map(([chain, rules]) =>
    diffOwnChain(chain, rules, table.get(chain), context.isKnownRendering),
  );
  const hooks = wanted.hooks.map((hook) => diffHook(hook, table.get(hook.chain) ?? [], context));
  const leftovers = findLeftovers(wanted, table);
  const parts = [leftovers.chains, ...chains, leftovers.rules, ...hooks];
  const changes = [...parts.flatMap((part) => part.changes), ...leftovers.deletions];
  return {
    drift: parts.flatMap(({ drift }) => drift),
    changes: order.flatMap((kind) => changes.filter((change) => change.kind === kind)),
  };
}

/** A rule that refers to a chain is added after the chain is created, and removed before the chain is deleted. */
const order: readonly Change['kind'][] = ['reset-chain', 'append', 'delete', 'insert', 'delete-chain'];

interface Leftovers {
  /** Chains of ours that are not wanted, emptied so that they refer to nothing. */
  readonly chains: Diff;
  /** Rules of ours in foreign chains that want no hook. */
  readonly rules: Diff;
  readonly deletions: readonly Change[];
}

function findLeftovers(wanted: WantedTable, table: Table): Leftovers {
  const chains = [...table.keys()].filter((name) => isOwnChain(name) && !wanted.chains.has(name));
  const hooked = new Set(wanted.hooks.map(({ chain }) => chain));
  const foreign = [...table].filter(([name]) => !isOwnChain(name) && !hooked.has(name));
  const rules = foreign.flatMap(([chain, texts]) => texts.filter(isOwnRule).map((rule) => ({ chain, rule })));
  return {
    chains: {
      drift: chains.map((chain) => ({ kind: 'leftover-chain', chain, message: `${chain} is left over` })),
      changes: chains.map((chain) => ({ kind: 'reset-chain', chain, exists: true })),
    },
    rules: {
      drift: rules.map(({ chain, rule }) => ({
        kind: 'leftover-rule',
        chain,
        rule,
        message: `a rule of vipnat is left over in ${chain}: ${rule}`,
      })),
      changes: rules.flatMap(({ chain, rule }) => deleteRules(chain, [rule])),
    },
    deletions: chains.map((chain) => ({ kind: 'delete-chain', chain })),
  };
}
