import { type Family } from '../../lib/address/address.ts';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { type Dialect, type UnreadRules } from '../../lib/kernel/port.ts';
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
