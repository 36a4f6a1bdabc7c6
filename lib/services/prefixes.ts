import { type Address } from '../address/address.ts';
import {
  type AddressRange,
  countAddresses,
  familyToBits,
  fromNumber,
  listBlocks,
  mergeRanges,
  toNumber,
} from './ranges.ts';

/** The fewest CIDRs that have exactly these addresses of one family, in order: `10.0.9.8/30`. */
export function toPrefixes(addresses: readonly Address[]): string[] {
  const ranges = addresses.map((address): AddressRange => {
    const number = toNumber(address);
    return { family: address.family, first: number, last: number };
  });
  return mergeRanges(ranges).flatMap(listBlocks).map(printBlock);
}

/** A block as nft calls it: `10.0.9.8/30`, and an address without its length. */
export function toPrefix(block: AddressRange): string {
  const { family, first, last } = block;
  return first === last ? fromNumber(family, first).text : printBlock(block);
}

function printBlock(block: AddressRange): string {
  const { family, first } = block;
  const length = familyToBits[family] - (countAddresses(block).toString(2).length - 1);
  return `${fromNumber(family, first).text}/${length}`;
}
