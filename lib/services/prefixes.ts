import { type Address } from '../address/address.ts';
import { type AddressRange, fromNumber, mergeRanges, toNumber } from './ranges.ts';

const familyToBits = { ipv4: 32, ipv6: 128 } as const;

/** The fewest CIDRs that have exactly these addresses of one family, in order: `10.0.9.8/30`. */
export function toPrefixes(addresses: readonly Address[]): string[] {
  const ranges = addresses.map((address): AddressRange => {
    const number = toNumber(address);
    return { family: address.family, first: number, last: number };
  });
  return mergeRanges(ranges).flatMap(splitRange);
}

/** The largest block that begins at the first address and does not go beyond the last one, and so on. */
function splitRange({ family, first, last }: AddressRange): string[] {
  const prefixes: string[] = [];
  for (let at = first; at <= last;) {
    let free = 0n;
    while (at % (2n << free) === 0n && at + (2n << free) - 1n <= last) free += 1n;
    prefixes.push(`${fromNumber(family, at).text}/${familyToBits[family] - Number(free)}`);
    at += 1n << free;
  }
  return prefixes;
}
