/** Rules of nftables as the kernel has them, asked for without a tool. */
import { createHash } from 'node:crypto';
import { type NetlinkClient, type NetlinkQuestioner } from './netlink.ts';
import { dumpList, type NetlinkList, visitList } from './netlink-dump.ts';
import { parseAttributes, renderAttribute, visitAttributes } from './netlink-messages.ts';
import { nfgenmsgBytes, type NftLayer, readName, renderFamily } from './nft-chains.ts';

/** Which rules: of one chain, or of all chains of a table. */
export interface RulePlace {
  readonly family: NftLayer;
  readonly table: string;
  readonly chain?: string;
}

/** The rules of a place, unread. */
export interface RawRules {
  /** In their order. A rule that is replaced has another one, and none comes again. */
  readonly handles: readonly number[];
  /** The same for the same rules in the same order: what they say, byte for byte, without handles, places and counters. */
  readonly digest: string;
  /** Where rules lead: each chain, with the chain that leads there. */
  readonly jumps: readonly { readonly from: string; readonly to: string }[];
}

/**
 * The handles of the rules of a place, in their order; none where there is no such place. What it costs grows with these rules only.
 * Takes a client of the protocol netfilter, and rejects with NETLINK_FAILED, without CAP_NET_ADMIN with TOOL_NOT_PERMITTED.
 */
export async function readRuleHandles(client: NetlinkClient, place: RulePlace): Promise<string[]> {
  const rules = await dumpList(client, toList(place));
  return rules.map(
    (data) => parseAttributes(data, nfgenmsgBytes).get(NFTA_RULE_HANDLE)?.toString('hex') ?? '',
  );
}

/**
 * The rules of a place. Costs and rejects alike. What others change there meanwhile can be half in it: who cannot have that compares the
 * handles of two readings.
 */
export async function readRawRules(client: NetlinkQuestioner, place: RulePlace): Promise<RawRules> {
  const hash = createHash('sha256');
  const rules = { handles: [] as number[], jumps: [] as { from: string; to: string }[] };
  await visitList(client, toList(place), (datagram, start, end) => {
    readRule(datagram, start, end, rules);
    hash.update(datagram.subarray(start, end));
  });
  return { ...rules, digest: hash.digest('base64') };
}

// linux/netfilter/nf_tables.h
const NFT_MSG_NEWRULE = 0x0a06;
const NFT_MSG_GETRULE = 0x0a07;
const NFTA_RULE_TABLE = 1;
const NFTA_RULE_CHAIN = 2;
const NFTA_RULE_HANDLE = 3;
const NFTA_RULE_EXPRESSIONS = 4;
const NFTA_RULE_POSITION = 6;
const NFTA_EXPR_NAME = 1;
const NFTA_EXPR_DATA = 2;
const NFTA_IMMEDIATE_DATA = 2;
const NFTA_DATA_VERDICT = 2;
const NFTA_VERDICT_CHAIN = 2;

function toList({ family, table, chain }: RulePlace): NetlinkList {
  const names = [renderName(NFTA_RULE_TABLE, table)];
  if (chain !== undefined) names.push(renderName(NFTA_RULE_CHAIN, chain));
  return {
    question: NFT_MSG_GETRULE,
    answer: NFT_MSG_NEWRULE,
    payload: Buffer.concat([renderFamily(family), ...names]),
    leastBytes: nfgenmsgBytes,
    subject: 'rules',
  };
}

function renderName(type: number, name: string): Buffer {
  return renderAttribute(type, Buffer.from(`${name}\0`));
}

/** Reads one rule, and overwrites in place what rules that say the same can differ in. */
function readRule(
  datagram: Buffer,
  first: number,
  last: number,
  rules: { handles: number[]; jumps: { from: string; to: string }[] },
): void {
  // The header has the generation in it.
  datagram.fill(0, first, first + nfgenmsgBytes);
  let from = '';
  visitAttributes(datagram, first + nfgenmsgBytes, last, (type, start, end) => {
    if (type === NFTA_RULE_CHAIN) from = readName(datagram, start, end);
    else if (type === NFTA_RULE_HANDLE) rules.handles.push(Number(datagram.readBigUInt64BE(start)));
    else if (type === NFTA_RULE_EXPRESSIONS) {
      visitAttributes(datagram, start, end, (_, begin, limit) => {
        const to = readExpression(datagram, begin, limit);
        if (to !== null) rules.jumps.push({ from, to });
      });
    }
    if (type === NFTA_RULE_HANDLE || type === NFTA_RULE_POSITION) datagram.fill(0, start, end);
  });
}

/** Where an expression leads. Packets change a counter; all else of what iptables-nft writes stays as it was written. */
function readExpression(datagram: Buffer, first: number, last: number): string | null {
  let name = '';
  let to: string | null = null;
  visitAttributes(datagram, first, last, (type, start, end) => {
    if (type === NFTA_EXPR_NAME) name = readName(datagram, start, end);
    else if (type === NFTA_EXPR_DATA && name === 'counter') datagram.fill(0, start, end);
    else if (type === NFTA_EXPR_DATA && name === 'immediate') to = readVerdict(datagram, start, end);
  });
  return to;
}

const verdictPath = [NFTA_IMMEDIATE_DATA, NFTA_DATA_VERDICT, NFTA_VERDICT_CHAIN];

function readVerdict(datagram: Buffer, first: number, last: number, depth = 0): string | null {
  if (depth === verdictPath.length) return readName(datagram, first, last);
  let found: string | null = null;
  visitAttributes(datagram, first, last, (type, start, end) => {
    if (type === verdictPath[depth]) found = readVerdict(datagram, start, end, depth + 1);
  });
  return found;
}
