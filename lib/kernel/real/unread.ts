import { type ErrorCode } from '../../text/errors.ts';
import { familyToNft } from '../netlink/nft-chains.ts';
import { iptablesTables, type ReadTable, type UnreadRules } from '../port.ts';
import { toolName } from '../tools/tool-name.ts';

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
