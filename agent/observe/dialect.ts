import {
  type IptablesDialect,
  type Dialect,
  iptablesDialects,
  type UnreadRules,
} from '../../lib/kernel/port.ts';
import type { Sourced } from '../../lib/text.ts';
import { type Ruleset, isOwnChain, isOwnRule } from '../../lib/iptables/rules.ts';
import type { Family, Endpoint } from '../../lib/net.ts';
import type { FoundProxyMode } from './kube-proxy.ts';
import { writtenTables } from '../../lib/dialect.ts';

interface DialectEvidence {
  /** `--iptables`. */
  readonly configured: IptablesDialect | 'auto' | 'none';
  /** The dialect of iptables that this host uses. */
  readonly iptables: Sourced<IptablesDialect>;
  /** Whether an iptables is installed for every family that is written to. */
  readonly hasIptables: boolean;
  /** The same for nft. */
  readonly hasNft: boolean;
  readonly isNftProxy: boolean;
  /** The table, of those that are written, that the dialect of iptables cannot show; null where it can show all. */
  readonly unshowable: string | null;
}

/**
 * What vipnat's rules are written to: a table of its own where kube-proxy has one too, where there is no iptables, or where
 * iptables cannot show a table that vipnat would write to; else iptables. One for all VIPs.
 */
export function chooseDialect(evidence: DialectEvidence): Sourced<Dialect> {
  const { configured, iptables, hasIptables, hasNft, isNftProxy, unshowable } = evidence;
  if (configured === 'none') return { value: 'nftables', seenIn: '--iptables none' };
  if (configured !== 'auto') return iptables;
  if (!hasIptables) return { value: 'nftables', seenIn: 'no iptables is installed' };
  if (isNftProxy && hasNft) return { value: 'nftables', seenIn: 'kube-proxy runs in proxy mode nftables' };
  if (unshowable !== null && hasNft)
    return { value: 'nftables', seenIn: `iptables-${iptables.value} cannot show the table ${unshowable}` };
  return iptables;
}

/** Chains that kubelet creates in the mangle table of the backend in use (KEP-3178; kubelet 1.17 and 1.24 on). */
const kubeletHints = ['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY'];

/** The chain kube-proxy creates in the tables it programs, kube-proxy 1.17 on. */
const kubeProxyHint = 'KUBE-PROXY-CANARY';

/** All chains that hint at the dialect in use, the best first. */
export const dialectHints = [...kubeletHints, kubeProxyHint];

/** What the choice rests on in addition to the rules themselves. */
export interface IptablesDialectEvidence {
  /** In which dialect kube-proxy's live rule for the service was seen, if in one only. */
  readonly entryRule: IptablesDialect | null;
  /** What was chosen before, by this process; null for nothing. */
  readonly before: IptablesDialect | null;
  /** Those that this host has. */
  readonly candidates: readonly IptablesDialect[];
  /** Those that may have rules that could not be read. */
  readonly unread: readonly IptablesDialect[];
}

/**
 * Which backend's tables this host's Kubernetes uses, as iptables-wrappers decides it, with two additions
 * between its hints and its default: kube-proxy's own canary (a host without kubelet) and the number of foreign rules.
 * A jump into kube-proxy's chain is possible nowhere but where its live rule is, so that comes first of all. While a part
 * is unread the choice does not change: what fails for a moment must not move rules. Before any choice, nft stays the default
 * while its rules are unread: they may have evidence for it.
 */
export function chooseIptablesDialect(
  rulesets: readonly Ruleset[],
  configured: IptablesDialect | 'auto',
  evidence: IptablesDialectEvidence,
): Sourced<IptablesDialect> {
  const { entryRule, before, unread } = evidence;
  if (configured !== 'auto') return { value: configured, seenIn: '--iptables' };
  if (before !== null && unread.length > 0) {
    return {
      value: before,
      seenIn: `chosen earlier, and vipnat cannot read all of iptables-${unread.join('/')}`,
    };
  }
  if (entryRule !== null) return { value: entryRule, seenIn: "it has kube-proxy's rules" };
  for (const hint of dialectHints) {
    const dialect = iptablesDialects.find((candidate) =>
      rulesets.some((ruleset) => ruleset.dialect === candidate && ruleset.tables.get('mangle')?.has(hint)),
    );
    if (dialect !== undefined) return { value: dialect, seenIn: `mangle has ${hint}` };
  }
  return chooseWithoutHint(rulesets, evidence);
}

function chooseWithoutHint(
  rulesets: readonly Ruleset[],
  { candidates, unread }: IptablesDialectEvidence,
): Sourced<IptablesDialect> {
  if (!candidates.includes('nft') && candidates.includes('legacy'))
    return { value: 'legacy', seenIn: 'this host has no other iptables' };
  if (unread.includes('nft')) return { value: 'nft', seenIn: 'the default' };
  const legacyLead = countRules(rulesets, 'legacy') - countRules(rulesets, 'nft');
  return legacyLead > 0
    ? { value: 'legacy', seenIn: `it has ${legacyLead} more rules than nft` }
    : { value: 'nft', seenIn: 'the default' };
}

/** vipnat's own do not count: they are where an earlier choice put them, and writing them must not change this one (I7). */
function countRules(rulesets: readonly Ruleset[], dialect: IptablesDialect): number {
  const found = rulesets.filter((ruleset) => ruleset.dialect === dialect);
  const unlisted = found.reduce((total, { unlistedRules = 0 }) => total + unlistedRules, 0);
  return found
    .flatMap(({ tables }) => [...tables.values()])
    .flatMap((table) => [...table])
    .filter(([chain]) => !isOwnChain(chain))
    .reduce((total, [, rules]) => total + rules.filter((rule) => !isOwnRule(rule)).length, unlisted);
}

/** What was chosen from the rules that were read. */
export interface Choice {
  /** Those that have a VIP. */
  readonly families: ReadonlySet<Family>;
  /** What rules are written to. */
  readonly dialect: Dialect;
  readonly proxyMode: FoundProxyMode;
  /** Whether kube-proxy's own nftables rules had a say in its mode, or would have had. */
  readonly isModeByRules: boolean;
}

/**
 * The first table of a dialect of iptables, of those that rules are written to, that its tool cannot show in a family that has a VIP:
 * somebody has put a rule of nft's own there, and that lasts. Null where there is none. Pure.
 */
export function findUnshowable(
  unread: readonly UnreadRules[],
  dialect: Dialect,
  vips: readonly Pick<Endpoint, 'family'>[],
): string | null {
  const found = unread
    .filter(({ code }) => code === 'TABLE_INCOMPATIBLE')
    .filter((one) => one.dialect === dialect && vips.some(({ family }) => family === one.family));
  return writtenTables.find((name) => found.some(({ tables }) => tables.includes(name))) ?? null;
}

/** Each by backend and table. */
export function listNeeded({ dialect, proxyMode, isModeByRules }: Choice): string[] {
  const written = dialect === 'nftables' ? ['vipnat'] : writtenTables;
  const isProxyNeeded = proxyMode === 'nftables' || isModeByRules;
  return [...written.map((one) => `${dialect} ${one}`), ...(isProxyNeeded ? ['nftables kube-proxy'] : [])];
}
