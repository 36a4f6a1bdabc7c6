import { type Endpoint, formatEndpoint } from '../../address/endpoint.ts';
import { nameOwnTable } from '../../kernel/netlink/own-table.ts';
import { vipChainName } from '../rules/balance.ts';
import { diffObjects, orderChanges } from './change.ts';
import { compareChain } from '../rules/compare-chain.ts';
import { diffNftTable, type NftDiff } from './diff-table.ts';
import { nftLanguage } from './language.ts';
import { readVip } from './read-vips.ts';
import { renderNftTable } from './render.ts';
import { type NftRuleset, type NftTable } from './ruleset.ts';

/**
 * The changes that take some virtual IPs out of our table of one family: their chains and sets, and their rules in the
 * chains that all share. The table goes whole when it has no other virtual IP. Nothing else is changed or repaired. Shared
 * chains that vipnat of this version wrote are as it would write them for the other virtual IPs (I7).
 */
export function removeVipsFromNft({ family, table: seen }: NftRuleset, vips: readonly Endpoint[]): NftDiff {
  const nothing: NftDiff = { drift: [], changes: [] };
  if (seen === null) return nothing;
  const gone = vips.map(vipChainName);
  const chains = [...seen.chains.keys()].filter((name) => gone.includes(name));
  const sets = [...seen.sets.keys()].filter((name) => gone.some((chain) => name.startsWith(`${chain}-`)));
  const reduced = [...seen.chains]
    .filter(([name]) => !name.startsWith('VIPNAT-'))
    .flatMap(([name, { hook, rules }]) => {
      const kept = rules.filter((text) => !isAbout(text, vips));
      return kept.length === rules.length
        ? []
        : [[name, { hook, rules: writeAnew(name, rules, kept) }] as const];
    });
  if (chains.length === 0 && reduced.length === 0) return nothing;
  if (!hasOthers(seen, gone)) return diffNftTable({ family, wanted: null, seen }, () => false);
  const without = <T>(all: ReadonlyMap<string, T>, names: readonly string[]) =>
    [...all].filter(([name]) => !names.includes(name));
  const wanted: NftTable = {
    sets: new Map(without(seen.sets, sets)),
    chains: new Map([...without(seen.chains, chains), ...reduced]),
  };
  return {
    drift: [...chains, ...reduced.map(([name]) => name)].map((chain) => ({
      kind: 'leftover-chain',
      chain,
      message: `${chain} is left over`,
    })),
    changes: orderChanges(diffObjects(nameOwnTable(family), { wanted, seen })),
  };
}

function hasOthers({ chains }: NftTable, gone: readonly string[]): boolean {
  return [...chains.keys()].some((name) => name.startsWith('VIPNAT-') && !gone.includes(name));
}

function isAbout(text: string, vips: readonly Endpoint[]): boolean {
  const target = / jump (\S+)/.exec(text)?.[1];
  if (vips.some((vip) => vipChainName(vip) === target)) return true;
  const found = readVip(text);
  return found !== null && vips.map(formatEndpoint).includes(formatEndpoint(found));
}

/** Signatures count the rules before: those that stay get new ones. A chain that somebody edited, or another version wrote, keeps its texts. */
function writeAnew(name: string, rules: readonly string[], kept: readonly string[]): readonly string[] {
  const before = render(name, rules);
  const after = render(name, kept);
  if (before === null || after === null) return kept;
  const wanted = before.map((text) => ({ id: nftLanguage.readComment(text) ?? '', text }));
  const comparison = { chain: name, wanted, seen: rules, isKnownRendering: () => false };
  return compareChain(comparison, nftLanguage).length > 0 ? kept : after;
}

/** The rules as this version would write them; null where one is none that it writes there. */
function render(name: string, rules: readonly string[]): readonly string[] | null {
  const vips = rules.map(readVip).filter((vip) => vip !== null);
  const [first] = vips;
  if (first === undefined) return rules.length === 0 ? [] : null;
  if (vips.length < rules.length) return null;
  const balances = vips.map((vip) => ({
    vip,
    masquerade: 'own' as const,
    backends: [],
    affinitySeconds: null,
  }));
  return renderNftTable(first.family, balances)?.chains.get(name)?.rules ?? null;
}
