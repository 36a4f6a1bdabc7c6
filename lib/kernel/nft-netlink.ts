import {
  type NetlinkQuestioner,
  parseAttributes,
  type NetlinkOrder,
  renderAttribute,
  type NetlinkClient,
  dumpList,
  visitList,
  type NetlinkList,
  visitAttributes,
  findAttribute,
  readGeneration,
  isTaken,
  nfgenmsgBytes,
} from './netlink.ts';
import { type Family, toAddressBytes, readAddressBytes } from '../net.ts';
import { endianness } from 'node:os';
import { createHash } from 'node:crypto';
import { type NftFamily, familyToNft } from './port.ts';

/** kube-proxy writes once a second: no supported host has a commit within a few milliseconds in each of so many tries. */
const maxTries = 10;

/**
 * Reads something of nftables until it is known to be as it was at one moment: no commit came meanwhile, or two readings are alike.
 * `describe` says all that a change of it would change, with handles: these never come again, so what neither reading saw change did
 * not change between them. Null where it did not hold still. Rejects as the reading and readGeneration do.
 */
export async function readOneMoment<T>(
  client: NetlinkQuestioner,
  read: () => Promise<T>,
  describe: (seen: T) => string,
): Promise<T | null> {
  let before: string | null = null;
  for (let attempt = 0; attempt < maxTries; attempt += 1) {
    const generation = await readGeneration(client);
    const now = await read();
    if ((await readGeneration(client)) === generation) return now;
    const description = describe(now);
    if (description === before) return now;
    before = description;
  }
  return null;
}

/**
 * Elements of nftables' sets and maps, changed without a tool.
 *
 * Goal: a change of one endpoint costs what that change costs. nft takes 4 ms to start, and 5 ms more with 1,000 Services.
 * Tension: nft knows every type and every kernel; what is encoded wrongly sends packets elsewhere.
 * Compromise: the few types whose encoding is that of the packets themselves. Whatever else there is takes nft.
 */

/** Which elements of one set or map go, and which come. Of an element whose value changes, the key goes and comes. */
export interface ElementChange {
  readonly family: Family;
  readonly table: string;
  readonly set: string;
  /** How the set was declared, in nft's words: `typeof numgen inc mod 2 : ip daddr . tcp dport`. */
  readonly declaration: string;
  /** Keys, in nft's words. */
  readonly removed: readonly string[];
  /** Key to value; the values of a set are empty. */
  readonly added: readonly (readonly [string, string])[];
}

/** Of NFNL_MSG_BATCH_BEGIN. linux/netfilter/nfnetlink.h */
export const NFNL_SUBSYS_NFTABLES = 10;

/** More elements than these are too much for one message to the kernel, and worth the start of a tool. */
const maxElements = 1000;

/** The value of one attribute is less than 64 kB; an element takes 68 bytes at most. */
const maxElementsInMessage = 500;

/** The orders that make these changes, in their order. Null for types that only nft knows, and for too many elements. Pure. */
export function renderElementChanges(changes: readonly ElementChange[]): NetlinkOrder[] | null {
  const count = changes.reduce((sum, { removed, added }) => sum + removed.length + added.length, 0);
  if (count > maxElements) return null;
  const orders: NetlinkOrder[] = [];
  for (const change of changes) {
    const encoding = readEncoding(change.declaration);
    if (encoding === null) return null;
    const removed = change.removed.map((key) => renderElement(encoding, key, ''));
    const added = change.added.map(([key, value]) => renderElement(encoding, key, value));
    orders.push(
      ...renderOrders(change, NFT_MSG_DELSETELEM, removed),
      ...renderOrders(change, NFT_MSG_NEWSETELEM, added),
    );
  }
  return orders;
}

// linux/netfilter/nf_tables.h
const NFT_MSG_NEWSETELEM = (NFNL_SUBSYS_NFTABLES << 8) | 12;
const NFT_MSG_DELSETELEM = (NFNL_SUBSYS_NFTABLES << 8) | 14;
const NFTA_SET_ELEM_LIST_TABLE = 1;
const NFTA_SET_ELEM_LIST_SET = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS = 3;
const NFTA_LIST_ELEM = 1;
const NFTA_SET_ELEM_KEY = 1;
const NFTA_SET_ELEM_DATA = 2;
const NFTA_DATA_VALUE = 1;

function renderOrders({ family, table, set }: ElementChange, type: number, elements: readonly Buffer[]) {
  const parts = Array.from({ length: Math.ceil(elements.length / maxElementsInMessage) }, (_, at) =>
    elements.slice(at * maxElementsInMessage, (at + 1) * maxElementsInMessage),
  );
  return parts.map((part) => ({
    type,
    payload: Buffer.concat([
      renderFamily(familyToNft[family]),
      renderName(NFTA_SET_ELEM_LIST_TABLE, table),
      renderName(NFTA_SET_ELEM_LIST_SET, set),
      renderAttribute(NFTA_SET_ELEM_LIST_ELEMENTS, Buffer.concat(part), true),
    ]),
    isCreation: type === NFT_MSG_NEWSETELEM,
  }));
}

function renderElement({ key, value }: Encoding, keyText: string, valueText: string): Buffer {
  const attributes = [
    renderData(NFTA_SET_ELEM_KEY, key.encode(keyText)),
    ...(valueText === '' ? [] : [renderData(NFTA_SET_ELEM_DATA, value.encode(valueText))]),
  ];
  return renderAttribute(NFTA_LIST_ELEM, Buffer.concat(attributes), true);
}

function renderData(type: number, bytes: Buffer): Buffer {
  return renderAttribute(type, renderAttribute(NFTA_DATA_VALUE, bytes), true);
}

/** How the values of a type are encoded, and how many bytes one has. */
interface Codec {
  readonly bytes: number;
  readonly encode: (text: string) => Buffer;
  readonly decode: (bytes: Buffer) => string;
}

interface Encoding {
  readonly key: Codec;
  readonly value: Codec;
}

/** Null for a declaration that has more than `type` or `typeof`, or a type that is not known. */
function readEncoding(declaration: string): Encoding | null {
  const [, types] = /^type(?:of)? ([^;]+)$/.exec(declaration) ?? [];
  const [key, value] = (types?.split(' : ') ?? []).map(readType);
  if (key == null || value === null) return null;
  return { key, value: value ?? key };
}

/** Several types one after the other, each filled up to four bytes, as in the kernel's registers. */
function readType(text: string): Codec | null {
  const known = text.split(' . ').map((type) => typeToCodec.get(type));
  const codecs = known.filter((codec) => codec !== undefined);
  if (codecs.length < known.length) return null;
  const [only] = codecs;
  if (codecs.length === 1 && only !== undefined) return only;
  const ends = codecs.map((_, at) =>
    codecs.slice(0, at + 1).reduce((sum, { bytes }) => sum + ((bytes + 3) & ~3), 0),
  );
  return {
    bytes: ends.at(-1) ?? 0,
    encode: (element) => Buffer.concat(element.split(' . ').map((part, at) => pad(codecs[at]?.encode(part)))),
    decode: (all) =>
      codecs
        .map(({ bytes, decode }, at) => {
          const start = ends[at - 1] ?? 0;
          return decode(all.subarray(start, start + bytes));
        })
        .join(' . '),
  };
}

function pad(bytes: Buffer = Buffer.alloc(0)): Buffer {
  return Buffer.concat([bytes, Buffer.alloc(-bytes.length & 3)]);
}

function toAddress(bytes: 4 | 16): Codec {
  return { bytes, encode: toAddressBytes, decode: (value) => readAddressBytes(value) ?? '' };
}

/** In the order of the network. */
function toNumber(bytes: 1 | 2 | 4): Codec {
  const encode = (text: string) => {
    const value = Buffer.alloc(bytes);
    value.writeUIntBE(Number(text), 0, bytes);
    return value;
  };
  return { bytes, encode, decode: (value) => String(value.readUIntBE(0, bytes)) };
}

/** A number that the kernel itself makes: as the processor has it. */
const hostNumber: Codec = {
  bytes: 4,
  encode: (text) => inHostOrder(toNumber(4).encode(text)),
  decode: (bytes) => toNumber(4).decode(inHostOrder(bytes)),
};

/** The same in two halves, as nft prints the priorities of packets: `1:f`. */
const handle: Codec = {
  bytes: 4,
  encode: (text) =>
    hostNumber.encode(`0x${text.replace(/\w+/g, (half) => half.padStart(4, '0')).replace(':', '')}`),
  decode: (bytes) =>
    [16, 0].map((bits) => ((Number(hostNumber.decode(bytes)) >>> bits) & 0xffff).toString(16)).join(':'),
};

function inHostOrder(bytes: Buffer): Buffer {
  return endianness() === 'LE' ? Buffer.from(bytes).reverse() : bytes;
}

/** Types and expressions of nft, to how their values are encoded. */
const typeToCodec: ReadonlyMap<string, Codec> = new Map([
  ...['ipv4_addr', 'ip daddr'].map((type) => [type, toAddress(4)] as const),
  ...['ipv6_addr', 'ip6 daddr'].map((type) => [type, toAddress(16)] as const),
  ...['inet_service', 'tcp dport', 'udp dport', 'sctp dport'].map((type) => [type, toNumber(2)] as const),
  ['inet_proto', toNumber(1)],
  ['numgen inc mod 2', hostNumber],
  ['meta priority', handle],
]);

/**
 * The elements of a set or map, each as nft prints it with -n; null for types that only nft knows. What it costs grows with these elements
 * only. Rejects with NETLINK_FAILED, without CAP_NET_ADMIN with TOOL_NOT_PERMITTED.
 */
export async function readElements(
  client: NetlinkQuestioner,
  { family, table, set, declaration }: Omit<ElementChange, 'removed' | 'added'>,
): Promise<string[] | null> {
  const isOfVerdicts = declaration.endsWith(' : verdict');
  const encoding = readEncoding(declaration.replace(/ : verdict$/, ''));
  if (encoding === null) return null;
  const names = [renderName(NFTA_SET_ELEM_LIST_TABLE, table), renderName(NFTA_SET_ELEM_LIST_SET, set)];
  const messages = await dumpList(client, {
    question: NFT_MSG_GETSETELEM,
    answer: NFT_MSG_NEWSETELEM,
    payload: Buffer.concat([renderFamily(familyToNft[family]), ...names]),
    leastBytes: nfgenmsgBytes,
    subject: 'elements of sets',
  });
  const elements: string[] = [];
  for (const message of messages) {
    const list = findAttribute(message, nfgenmsgBytes, NFTA_SET_ELEM_LIST_ELEMENTS) ?? Buffer.alloc(0);
    visitAttributes(list, 0, list.length, (_, start, end) => {
      const parts = parseAttributes(list.subarray(start, end), 0);
      const data = parts.get(NFTA_SET_ELEM_DATA);
      const index = parts.get(NFTA_SET_ELEM_KEY);
      const key = index === undefined ? '*' : readData(encoding.key, index);
      const value = data === undefined || isOfVerdicts ? readAction(data) : readData(encoding.value, data);
      elements.push(value === '' ? key : `${key} : ${value}`);
    });
  }
  return elements;
}

const NFT_MSG_GETSETELEM = (NFNL_SUBSYS_NFTABLES << 8) | 13;

const readData = ({ decode }: Codec, attribute: Buffer) =>
  decode(findAttribute(attribute, 0, NFTA_DATA_VALUE) ?? Buffer.alloc(0));

/** What vipnat's maps have. linux/netfilter/nf_tables.h, NFT_GOTO, and linux/netfilter.h, NF_ACCEPT. */
const codeToVerdict = new Map([
  [1, 'accept'],
  [-4, 'goto'],
]);

function readAction(data: Buffer | undefined): string {
  if (data === undefined) return '';
  const parts = parseAttributes(findAttribute(data, 0, NFTA_DATA_VERDICT) ?? Buffer.alloc(0), 0);
  const verdict = codeToVerdict.get(parts.get(NFTA_VERDICT_CODE)?.readInt32BE() ?? 0) ?? '';
  const chain = parts.get(NFTA_VERDICT_CHAIN)?.toString().replace(/\0$/, '');
  return chain === undefined ? verdict : `${verdict} ${chain}`;
}

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
const NFTA_VERDICT_CODE = 1;
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

/** A family of nftables, as nft names it. */
export type NftLayer = keyof typeof layerToNumber;

/** A chain of nftables. */
export interface NftChain {
  /** Null for one that nftables has got since Linux 6.18. */
  readonly layer: NftLayer | null;
  readonly table: string;
  readonly name: string;
  /** How many rules it has, and how many lead to it. */
  readonly use: number;
  /** What happens to packets that no rule decides about, as iptables says it; null for a chain without a hook. */
  readonly policy: 'ACCEPT' | 'DROP' | null;
  /** What a chain with a hook is for, as nft says it: `filter`, `nat`, `route`; null for one without. */
  readonly type: string | null;
  /** The number of its hook in the families ip, ip6 and inet, see hookNumbers; null for a chain without one. */
  readonly hook: number | null;
  /** The place of its hook among others: the least comes first. Null for a chain without a hook. */
  readonly priority: number | null;
}

/**
 * All chains, of one family or of every one. What it costs grows with them. Chains that come or go meanwhile can hide others: who
 * cannot have that asks twice. Takes a client of the protocol netfilter, and rejects with NETLINK_FAILED, without CAP_NET_ADMIN
 * with TOOL_NOT_PERMITTED.
 */
export async function listChains(client: NetlinkQuestioner, family?: NftFamily): Promise<NftChain[]> {
  const chains: NftChain[] = [];
  await visitList(client, { ...chainList, payload: renderFamily(family) }, (datagram, start, end) => {
    chains.push(readChain(datagram, start, end));
  });
  return chains;
}

/** Whether there is a chain. What it costs grows with nothing. Takes a client of the protocol netfilter, and rejects as `listChains` does. */
export async function hasChain(
  client: NetlinkQuestioner,
  { family, table, name }: Pick<NftChain, 'table' | 'name'> & { readonly family: NftFamily },
): Promise<boolean> {
  const payload = Buffer.concat([
    renderFamily(family),
    renderName(NFTA_CHAIN_TABLE, table),
    renderName(NFTA_CHAIN_NAME, name),
  ]);
  return await isTaken(client, { type: NFT_MSG_GETCHAIN, payload, subject: `the chain ${name}` }, 'ENOENT');
}

/** The header of a question about a family; about all of them when left out. */
export function renderFamily(family?: NftLayer): Buffer {
  return Buffer.from([family === undefined ? 0 : layerToNumber[family], 0, 0, 0]);
}

// linux/netfilter.h
const layerToNumber = { inet: 1, ip: 2, arp: 3, netdev: 5, bridge: 7, ip6: 10 } as const;
const numberToLayer = new Map(
  Object.entries(layerToNumber).map(([layer, number]): [number, NftLayer] => [number, layer as NftLayer]),
);
const NF_DROP = 0;
/** NF_INET_LOCAL_IN and NF_INET_FORWARD. The same in the family bridge; the second also in arp, and netdev has no hook of this number. */
export const hookNumbers = { input: 1, forward: 2 } as const;
// linux/netfilter/nf_tables.h
const NFT_MSG_GETCHAIN = 0x0a04;
const NFTA_CHAIN_TABLE = 1;
const NFTA_CHAIN_NAME = 3;
const NFTA_CHAIN_HOOK = 4;
const NFTA_CHAIN_POLICY = 5;
const NFTA_CHAIN_USE = 6;
const NFTA_CHAIN_TYPE = 7;
const NFTA_HOOK_HOOKNUM = 1;
const NFTA_HOOK_PRIORITY = 2;

const chainList: Omit<NetlinkList, 'answer' | 'payload'> = {
  question: NFT_MSG_GETCHAIN,
  leastBytes: nfgenmsgBytes,
  subject: 'chains',
};

function readChain(datagram: Buffer, first: number, last: number): NftChain {
  const layer = numberToLayer.get(datagram.readUInt8(first)) ?? null;
  const chain = { layer, table: '', name: '', use: 0, type: null as string | null };
  const place: Pick<NftChain, 'hook' | 'priority'> = { hook: null, priority: null };
  const fate = { isDropping: false };
  visitAttributes(datagram, first + nfgenmsgBytes, last, (type, start, end) => {
    if (type === NFTA_CHAIN_TABLE) chain.table = readName(datagram, start, end);
    else if (type === NFTA_CHAIN_NAME) chain.name = readName(datagram, start, end);
    else if (type === NFTA_CHAIN_USE && end - start === 4) chain.use = datagram.readUInt32BE(start);
    else if (type === NFTA_CHAIN_TYPE) chain.type = readName(datagram, start, end);
    else if (type === NFTA_CHAIN_HOOK) Object.assign(place, readHook(datagram, start, end));
    else if (type === NFTA_CHAIN_POLICY && end - start === 4)
      fate.isDropping = datagram.readUInt32BE(start) === NF_DROP;
  });
  const policy = fate.isDropping ? 'DROP' : 'ACCEPT';
  return { ...chain, ...place, policy: place.hook === null ? null : policy };
}

function readHook(datagram: Buffer, start: number, end: number): Pick<NftChain, 'hook' | 'priority'> {
  const parts = parseAttributes(datagram.subarray(start, end), 0);
  const [number, priority] = [NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY].map((type) => parts.get(type));
  return {
    hook: number?.length === 4 ? number.readUInt32BE() : null,
    priority: priority?.length === 4 ? priority.readInt32BE() : null,
  };
}

/** A name, without the zero that ends it. */
function readName(datagram: Buffer, start: number, end: number): string {
  return datagram.toString('utf8', start, end - 1);
}
