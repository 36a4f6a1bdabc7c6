import ipaddr from 'ipaddr.js';
import { type Family } from '../../lib/address/address.ts';

type Range = [ipaddr.IPv4 | ipaddr.IPv6, number];

/**
 * The ranges of one family that are not within another one, as nft prints them, sorted; null where everybody may come. A list
 * without one of this family is nobody. What is no range counts as none, but the list still is one.
 */
export function normaliseRanges(
  texts: readonly string[] | null | undefined,
  family: Family,
): readonly string[] | null {
  const given = (texts ?? []).map((text) => text.trim()).filter((text) => text !== '');
  if (given.length === 0) return null;
  const ranges = given.map(parseRange).filter((range) => range !== null);
  const own = ranges.filter(([address]) => address.kind() === family);
  const outer = own.filter(
    (range, at) => !own.some((other, place) => place !== at && contains(other, range, place < at)),
  );
  return outer.map(printRange).sort();
}

/** Whether an address is in one of these ranges. */
export function isInRanges(text: string, ranges: readonly string[]): boolean {
  const address = ipaddr.parse(text);
  return ranges
    .map(parseRange)
    .some((range) => range?.[0].kind() === address.kind() && matches(address, range));
}

function parseRange(text: string): Range | null {
  const [address = '', bits] = text.split('/');
  if (!ipaddr.isValid(address)) return null;
  const parsed = ipaddr.parse(address);
  const most = parsed.kind() === 'ipv6' ? 128 : 32;
  const length = bits === undefined ? most : Number(bits);
  if (bits !== undefined && (!/^\d{1,3}$/.test(bits) || length > most)) return null;
  const network =
    parsed.kind() === 'ipv6'
      ? ipaddr.IPv6.networkAddressFromCIDR(`${address}/${length}`)
      : ipaddr.IPv4.networkAddressFromCIDR(`${address}/${length}`);
  return [network, length];
}

/** Of two that are equal the first one stays. */
function contains(outer: Range, inner: Range, isFirst: boolean): boolean {
  if (outer[1] === inner[1] && !isFirst) return false;
  return outer[1] <= inner[1] && matches(inner[0], outer);
}

function matches(address: ipaddr.IPv4 | ipaddr.IPv6, [network, length]: Range): boolean {
  return address.kind() === 'ipv6'
    ? (address as ipaddr.IPv6).match(network, length)
    : (address as ipaddr.IPv4).match(network, length);
}

function printRange([network, length]: Range): string {
  const isWhole = length === (network.kind() === 'ipv6' ? 128 : 32);
  const text = network.kind() === 'ipv6' ? (network as ipaddr.IPv6).toRFC5952String() : network.toString();
  return isWhole ? text : `${text}/${length}`;
}
