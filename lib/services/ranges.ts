/** Ranges of addresses, as pools have them. An address is a number here, and its family beside it. */
import ipaddr from 'ipaddr.js';
import { type Address, type Family, parseAddress } from '../address/address.ts';

/** All addresses from one to another, both included. */
export interface AddressRange {
  readonly family: Family;
  readonly first: bigint;
  readonly last: bigint;
}

/** How many bits an address has. */
export const familyToBits: Readonly<Record<Family, number>> = { ipv4: 32, ipv6: 128 };

/**
 * Reads `A-B`, `A/LENGTH` or `A`. Answers null for anything else: two families, B before A, bits of a host in a CIDR (10.0.9.5/24 may
 * be meant either way). Network and broadcast addresses belong to a range: whoever does not want them given does not list
 * them.
 */
export function parseRange(text: string): AddressRange | null {
  if (text.includes('/')) return parseCidr(text);
  const [from = '', to = from, ...more] = text.split('-').map((part) => part.trim());
  const [first, last] = [parseAddress(from), parseAddress(to)];
  if (first === null || last?.family !== first.family || more.length > 0) return null;
  const range = { family: first.family, first: toNumber(first), last: toNumber(last) };
  return range.first <= range.last ? range : null;
}

/** `10.0.9.10-10.0.9.99`, or one address. */
export function formatRange({ family, first, last }: AddressRange): string {
  const [from, to] = [first, last].map((number) => fromNumber(family, number).text);
  return from === to ? `${from}` : `${from}-${to}`;
}

/** An address as a number: the order of addresses is that of their numbers. */
export function toNumber({ text }: Address): bigint {
  return BigInt(`0x${Buffer.from(ipaddr.parse(text).toByteArray()).toString('hex')}`);
}

/** The address of a number. */
export function fromNumber(family: Family, number: bigint): Address {
  const bytes = Buffer.from(number.toString(16).padStart(familyToBits[family] / 4, '0'), 'hex');
  const text = ipaddr.fromByteArray([...bytes]).toString();
  return parseAddress(text) ?? { family, text };
}

/** How many addresses a range has. */
export function countAddresses({ first, last }: AddressRange): bigint {
  return last - first + 1n;
}

/** Whether a range has an address. */
export function contains(range: AddressRange, address: Address): boolean {
  if (range.family !== address.family) return false;
  const number = toNumber(address);
  return range.first <= number && number <= range.last;
}

/** Whether two ranges have an address in common. */
export function overlap(one: AddressRange, other: AddressRange): boolean {
  return one.family === other.family && one.first <= other.last && other.first <= one.last;
}

/** The same addresses in order, each of them once: ranges that meet are one. */
export function mergeRanges(ranges: readonly AddressRange[]): AddressRange[] {
  const merged: AddressRange[] = [];
  for (const range of ranges.toSorted(compareRanges)) {
    const before = merged.at(-1);
    if (before?.family !== range.family || range.first > before.last + 1n) merged.push(range);
    else if (range.last > before.last) merged.splice(-1, 1, { ...before, last: range.last });
  }
  return merged;
}

/** How many addresses of a family merged ranges have. */
export function countOfFamily(ranges: readonly AddressRange[], family: Family): bigint {
  return ranges
    .filter((range) => range.family === family)
    .reduce((sum, range) => sum + countAddresses(range), 0n);
}

/**
 * The address at an index among those of a family, in the order of the ranges.
 * @throws RangeError when there are not so many.
 */
export function getNth(ranges: readonly AddressRange[], family: Family, index: bigint): Address {
  let left = index;
  for (const range of ranges) {
    if (range.family !== family) continue;
    const count = countAddresses(range);
    if (left < count) return fromNumber(family, range.first + left);
    left -= count;
  }
  throw new RangeError(`no ${family} address has the index ${index}`);
}

/** The index for which `getNth` answers an address; null where no range has it. */
export function findIndex(ranges: readonly AddressRange[], address: Address): bigint | null {
  let before = 0n;
  for (const range of ranges) {
    if (contains(range, address)) return before + toNumber(address) - range.first;
    if (range.family === address.family) before += countAddresses(range);
  }
  return null;
}

function parseCidr(text: string): AddressRange | null {
  const [, base = '', length = ''] = /^([^/]+)\/(0|[1-9]\d{0,2})$/.exec(text.trim()) ?? [];
  const address = parseAddress(base);
  if (address === null) return null;
  const block = toBlock(address, Number(length));
  return block?.first === toNumber(address) ? block : null;
}

/** The block of so many common bits that an address is in; null where it has not so many bits. */
export function toBlock(address: Address, length: number): AddressRange | null {
  const { family } = address;
  const free = BigInt(familyToBits[family] - length);
  if (free < 0n) return null;
  const first = (toNumber(address) >> free) << free;
  return { family, first, last: first + (1n << free) - 1n };
}

/** The fewest blocks that make a range up: the largest one that begins at its first address, and so on. */
export function listBlocks({ family, first, last }: AddressRange): AddressRange[] {
  const blocks: AddressRange[] = [];
  for (let at = first; at <= last;) {
    let size = 1n;
    while (at % (2n * size) === 0n && at + 2n * size - 1n <= last) size *= 2n;
    blocks.push({ family, first: at, last: at + size - 1n });
    at += size;
  }
  return blocks;
}

function compareRanges(one: AddressRange, other: AddressRange): number {
  if (one.family !== other.family) return one.family === 'ipv4' ? -1 : 1;
  return one.first < other.first ? -1 : 1;
}
