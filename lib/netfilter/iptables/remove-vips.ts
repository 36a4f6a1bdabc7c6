import { type Endpoint, formatEndpoint } from '../../address/endpoint.ts';
import { vipChainName } from '../rules/balance.ts';
import { type Change } from './change.ts';
import { compareChain } from '../rules/compare-chain.ts';
import { type Diff } from './diff-chain.ts';
import { deleteRules } from './diff-hook.ts';
import { inputChain, isOwnChain, isOwnRule, signRules } from './identity.ts';
import { iptablesLanguage } from './language.ts';
import { readVip } from './read-vips.ts';
import { renderSharedRule } from './render.ts';
import { parseRule } from './rule.ts';
import { type Table } from './ruleset.ts';

/**
 * The changes that take some virtual IPs out of a table: their chains, and their rules in the chains that all share. A
 * shared chain that holds no other rule goes with its hooks. Nothing else is changed or repaired, and foreign rules stay
 * (I5). Shared chains that vipnat of this version wrote are as it would write them for the other virtual IPs (I7). `isLast`: no
 * other virtual IP is left in any table of this family.
 */
export function removeVips(table: Table, vips: readonly Endpoint[], isLast: boolean): Diff {
  const own = [...table.keys()].filter(isOwnChain);
  const reduced = own
    .filter((chain) => chain !== inputChain)
    .map((chain) => reduceChain(chain, table.get(chain) ?? [], vips));
  // Its rules are about apiservers: they are of use as long as any virtual IP is.
  const parts = isLast && own.includes(inputChain) ? [...reduced, dropChain(inputChain)] : reduced;
  const gone = new Set(parts.filter(({ isGone }) => isGone).map(({ chain }) => chain));
  const hooks = [...table]
    .filter(([chain]) => !isOwnChain(chain))
    .flatMap(([chain, rules]) =>
      deleteRules(
        chain,
        rules.filter((text) => isOwnRule(text) && gone.has(parseRule(text).target ?? '')),
      ),
    );
  return {
    drift: parts.flatMap(({ drift }) => drift),
    changes: [
      ...parts.flatMap(({ changes }) => changes),
      ...hooks,
      ...[...gone].map((chain): Change => ({ kind: 'delete-chain', chain })),
    ],
  };
}

interface ReducedChain extends Diff {
  readonly chain: string;
  /** Whether nothing of it is left. */
  readonly isGone: boolean;
}

function reduceChain(chain: string, rules: readonly string[], vips: readonly Endpoint[]): ReducedChain {
  const kept = rules.filter((text) => !isAbout(text, vips));
  const isTheirs = vips.some((vip) => vipChainName(vip) === chain);
  if (!isTheirs && kept.length === rules.length) return { chain, drift: [], changes: [], isGone: false };
  const dropped = dropChain(chain);
  if (isTheirs || kept.length === 0) return dropped;
  const texts = writeAnew(chain, rules, kept);
  return {
    ...dropped,
    changes: [...dropped.changes, ...texts.map((rule): Change => ({ kind: 'append', chain, rule }))],
    isGone: false,
  };
}

/** Emptied, so that it refers to nothing. */
function dropChain(chain: string): ReducedChain {
  return {
    chain,
    drift: [{ kind: 'leftover-chain', chain, message: `${chain} is left over` }],
    changes: [{ kind: 'reset-chain', chain, exists: true }],
    isGone: true,
  };
}

function isAbout(text: string, vips: readonly Endpoint[]): boolean {
  const { target } = parseRule(text);
  if (vips.some((vip) => vipChainName(vip) === target)) return true;
  const found = readVip(text);
  return found !== null && vips.map(formatEndpoint).includes(formatEndpoint(found));
}

/** Signatures count the rules before: those that stay get new ones. A chain that somebody edited, or another version wrote, keeps its texts. */
function writeAnew(chain: string, rules: readonly string[], kept: readonly string[]): readonly string[] {
  const before = sign(chain, rules);
  const after = sign(chain, kept);
  if (before === null || after === null) return kept;
  const comparison = { chain, wanted: before, seen: rules, isKnownRendering: () => false };
  return compareChain(comparison, iptablesLanguage).length > 0 ? kept : after.map(({ text }) => text);
}

/** The rules as this version would write them; null where one is none that it writes there. */
function sign(chain: string, rules: readonly string[]): ReturnType<typeof signRules> | null {
  const specs = rules.map((text) => {
    const vip = readVip(text);
    return vip === null ? null : renderSharedRule(chain, vip);
  });
  return specs.includes(null)
    ? null
    : signRules(
        chain,
        specs.filter((spec) => spec !== null),
      );
}
