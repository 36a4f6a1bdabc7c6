/** Rules of nftables by their handles, asked for without a tool: a rule that is replaced has another handle. */
import { type NetlinkClient } from './netlink.ts';
import { dumpList, type NetlinkList } from './netlink-dump.ts';
import { parseAttributes } from './netlink-messages.ts';

/** Which rules: of one chain, or of all chains of a table. */
export interface RulePlace {
  readonly family: 'ip' | 'ip6';
  readonly table: string;
  readonly chain?: string;
}

/**
 * The handles of the rules of a place, in their order; none where there is no such place. What it costs grows with these rules only.
 * Takes a client of the protocol netfilter, and rejects with NETLINK_FAILED, without CAP_NET_ADMIN with TOOL_NOT_PERMITTED.
 */
export async function readRuleHandles(client: NetlinkClient, place: RulePlace): Promise<string[]> {
  const rules = await dumpList(client, { ...ruleList, payload: toPayload(place) });
  return rules.map(
    (data) => parseAttributes(data, nfgenmsgBytes).get(NFTA_RULE_HANDLE)?.toString('hex') ?? '',
  );
}

// linux/netfilter.h, linux/netfilter/nf_tables.h
const familyToNumber = { ip: 2, ip6: 10 } as const;
const NFT_MSG_NEWRULE = 0x0a06;
const NFT_MSG_GETRULE = 0x0a07;
const NFTA_RULE_TABLE = 1;
const NFTA_RULE_CHAIN = 2;
const NFTA_RULE_HANDLE = 3;
const nfgenmsgBytes = 4;

const ruleList: Omit<NetlinkList, 'payload'> = {
  question: NFT_MSG_GETRULE,
  answer: NFT_MSG_NEWRULE,
  leastBytes: nfgenmsgBytes,
  subject: 'rules',
};

function toPayload({ family, table, chain }: RulePlace): Buffer {
  const header = Buffer.from([familyToNumber[family], 0, 0, 0]);
  const names = [toAttribute(NFTA_RULE_TABLE, table)];
  if (chain !== undefined) names.push(toAttribute(NFTA_RULE_CHAIN, chain));
  return Buffer.concat([header, ...names]);
}

function toAttribute(type: number, name: string): Buffer {
  const value = Buffer.from(`${name}\0`);
  const attribute = Buffer.alloc(4 + ((value.length + 3) & ~3));
  attribute.writeUInt16LE(4 + value.length, 0);
  attribute.writeUInt16LE(type, 2);
  value.copy(attribute, 4);
  return attribute;
}
