import { familyToNft } from '../../lib/kernel/netlink/nft-chains.ts';
import { type Family } from '../../lib/address/address.ts';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { type ErrorCode, VipnatError } from '../../lib/text/errors.ts';
import { type Dialect, iptablesTables, type ReadTable, type UnreadRules } from '../../lib/kernel/port.ts';
import { toolName } from '../../lib/kernel/tools/tool-name.ts';
import { writtenTables } from '../../lib/netfilter/iptables/render.ts';
import { type ProxyMode } from './proxy-mode.ts';

/** What was chosen from the rules that were read. */
export interface Choice {
  /** Those that have a VIP. */
  readonly families: ReadonlySet<Family>;
  /** What rules are written to. */
  readonly dialect: Dialect;
  readonly proxyMode: ProxyMode;
  /** Whether kube-proxy's own nftables rules had a say in its mode, or would have had. */
  readonly isModeByRules: boolean;
}

/**
 * Whether what is written and decided rests on nothing unread (I1): the tables that are written to, and kube-proxy's
 * that a way or its mode is taken from, in the families that have a VIP.
 * @throws VipnatError the reason why one of them could not be read.
 */
export function requireNeeded(unread: readonly UnreadRules[], choice: Choice): void {
  const needed = listNeeded(choice);
  const missing = unread.find(
    ({ family, dialect, tables, code }) =>
      choice.families.has(family) &&
      // A kernel without nf_tables has no rules of kube-proxy's in it.
      !(code === 'NF_TABLES_MISSING' && tables.includes('kube-proxy')) &&
      tables.some((table) => needed.includes(`${dialect} ${table}`)),
  );
  if (missing === undefined) return;
  const { code, message, details } = missing;
  throw new VipnatError(code, message, details === undefined ? {} : { details });
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
function listNeeded({ dialect, proxyMode, isModeByRules }: Choice): string[] {
  const written = dialect === 'nftables' ? ['vipnat'] : writtenTables;
  const isProxyNeeded = proxyMode === 'nftables' || isModeByRules;
  return [
    ...written.map((table) => `${dialect} ${table}`),
    ...(isProxyNeeded ? ['nftables kube-proxy'] : []),
  ];
}

/** Which rules are unread, as one text that is the same while they are. Pure. */
export function nameUnread(unread: readonly UnreadRules[]): string {
  return unread.map((one) => `${namePlace(one)} ${one.code}`).join();
}

/** What could not be read for one reason, for people: which rules, why, and what that means. */
export interface UnreadText {
  readonly code: ErrorCode;
  readonly text: string;
}

/** One text for each reason. Pure. */
export function describeUnread(unread: readonly UnreadRules[]): UnreadText[] {
  const codes = [...new Set(unread.map(({ code }) => code))];
  return codes.map((code) => {
    const parts = unread.filter((one) => one.code === code);
    const places = [...new Set(parts.map(namePlace))].join(', ');
    return {
      code,
      text: `vipnat cannot read ${places} (${parts[0]?.message ?? ''}). ${describeConsequence(parts)}`,
    };
  });
}

function namePlace({ family, dialect, tables }: UnreadRules): string {
  if (dialect === 'nftables') return `nft table ${familyToNft[family]} ${tables.join()}`;
  const tool = toolName(family, dialect);
  return tables.length === iptablesTables.length ? tool : `${tables.join(' and ')} of ${tool}`;
}

function describeConsequence(parts: readonly UnreadRules[]): string {
  if (parts[0]?.code === 'NF_TABLES_MISSING') return 'This kernel has no nf_tables, so no such rules exist';
  const tables = new Set(parts.flatMap((part) => part.tables));
  const hasAny = (...some: readonly ReadTable[]) => some.some((table) => tables.has(table));
  const rules = [
    ...(hasAny('nat', 'filter', 'vipnat') ? ["vipnat's earlier rules"] : []),
    ...(hasAny('nat', 'kube-proxy') ? ["kube-proxy's rules"] : []),
    ...(hasAny('filter') ? ['a FORWARD chain that drops packets'] : []),
    ...(hasAny('mangle') && !hasAny('nat') ? ["kubelet's hint at the iptables variant in use"] : []),
  ];
  return `vipnat does not see there: ${rules.join(', ')}`;
}
