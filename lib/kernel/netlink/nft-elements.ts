/**
 * Elements of nftables' sets and maps, changed without a tool.
 *
 * Goal: a change of one endpoint costs what that change costs. nft takes 4 ms to start, and 5 ms more with 1,000 Services.
 * Tension: nft knows every type and every kernel; what is encoded wrongly sends packets elsewhere.
 * Compromise: the few types whose encoding is that of the packets themselves. Whatever else there is takes nft.
 */
import { endianness } from 'node:os';
import { type Family } from '../../address/address.ts';
import { toAddressBytes } from '../../address/bytes.ts';
import { type NetlinkOrder } from './netlink.ts';
import { renderAttribute } from './netlink-messages.ts';

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

// linux/netfilter.h, linux/netfilter/nf_tables.h
const familyToNumber: Readonly<Record<Family, number>> = { ipv4: 2, ipv6: 10 };
const NFT_MSG_NEWSETELEM = (NFNL_SUBSYS_NFTABLES << 8) | 12;
const NFT_MSG_DELSETELEM = (NFNL_SUBSYS_NFTABLES << 8) | 14;
const NFTA_SET_ELEM_LIST_TABLE = 1;
const NFTA_SET_ELEM_LIST_SET = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS = 3;
const NFTA_LIST_ELEM = 1;
const NFTA_SET_ELEM_KEY = 1;
const NFTA_SET_ELEM_DATA = 2;
const NFTA_DATA_VALUE = 1;

function renderOrders(
  { family, table, set }: ElementChange,
  type: number,
  elements: readonly Buffer[],
): NetlinkOrder[] {
  const parts = Array.from({ length: Math.ceil(elements.length / maxElementsInMessage) }, (_, at) =>
    elements.slice(at * maxElementsInMessage, (at + 1) * maxElementsInMessage),
  );
  return parts.map((part) => ({
    type,
    payload: Buffer.concat([
      Buffer.from([familyToNumber[family], 0, 0, 0]),
      renderAttribute(NFTA_SET_ELEM_LIST_TABLE, Buffer.from(`${table}\0`)),
      renderAttribute(NFTA_SET_ELEM_LIST_SET, Buffer.from(`${set}\0`)),
      renderAttribute(NFTA_SET_ELEM_LIST_ELEMENTS, Buffer.concat(part), true),
    ]),
    isCreation: type === NFT_MSG_NEWSETELEM,
  }));
}

function renderElement({ key, value }: Encoding, keyText: string, valueText: string): Buffer {
  const attributes = [
    renderData(NFTA_SET_ELEM_KEY, key(keyText)),
    ...(valueText === '' ? [] : [renderData(NFTA_SET_ELEM_DATA, value(valueText))]),
  ];
  return renderAttribute(NFTA_LIST_ELEM, Buffer.concat(attributes), true);
}

function renderData(type: number, bytes: Buffer): Buffer {
  return renderAttribute(type, renderAttribute(NFTA_DATA_VALUE, bytes), true);
}

type Encode = (text: string) => Buffer;

interface Encoding {
  readonly key: Encode;
  readonly value: Encode;
}

/** Null for a declaration that has more than `type` or `typeof`, or a type that is not known. */
function readEncoding(declaration: string): Encoding | null {
  const [, types] = /^type(?:of)? ([^;]+)$/.exec(declaration) ?? [];
  const [key, value] = (types?.split(' : ') ?? []).map(readType);
  if (key == null || value === null) return null;
  return { key, value: value ?? key };
}

/** Several types one after the other, each filled up to four bytes, as in the kernel's registers. */
function readType(text: string): Encode | null {
  const encodings = text.split(' . ').map((type) => typeToEncode.get(type));
  if (encodings.some((encode) => encode === undefined)) return null;
  const known = encodings as readonly Encode[];
  const [only] = known;
  if (known.length === 1 && only !== undefined) return only;
  return (element) => Buffer.concat(element.split(' . ').map((part, at) => pad(known[at]?.(part))));
}

function pad(bytes: Buffer = Buffer.alloc(0)): Buffer {
  return Buffer.concat([bytes, Buffer.alloc(-bytes.length & 3)]);
}

const encodeProtocol: Encode = (text) => Buffer.from([Number(text)]);

const encodePort: Encode = (text) => {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(Number(text));
  return bytes;
};

/** A number that the kernel itself makes: as the processor has it. */
const encodeNumber: Encode = (text) => {
  const bytes = Buffer.alloc(4);
  if (endianness() === 'LE') bytes.writeUInt32LE(Number(text));
  else bytes.writeUInt32BE(Number(text));
  return bytes;
};

/** Types and expressions of nft, to how their values are encoded. */
const typeToEncode: ReadonlyMap<string, Encode> = new Map([
  ['ipv4_addr', toAddressBytes],
  ['ipv6_addr', toAddressBytes],
  ['ip daddr', toAddressBytes],
  ['ip6 daddr', toAddressBytes],
  ['inet_proto', encodeProtocol],
  ['inet_service', encodePort],
  ['tcp dport', encodePort],
  ['udp dport', encodePort],
  ['sctp dport', encodePort],
  ['numgen inc mod 2', encodeNumber],
]);
