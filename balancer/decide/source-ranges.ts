/** Who may come to a Service, by its `loadBalancerSourceRanges`. They are a tenant's: read once, in n log n, and no more than so many. */
import { type Address, families, type Family, parseAddress } from '../../lib/address/address.ts';
import { toPrefix } from '../../lib/services/prefixes.ts';
import {
  type AddressRange,
  familyToBits,
  listBlocks,
  mergeRanges,
  toBlock,
  toNumber,
} from '../../lib/services/ranges.ts';

/** A Service with more is kube-proxy's. A list of these takes 30 ms of a processor. */
export const maxSourceRanges = 2000;

/** What a Service's list says. */
export interface SourceRanges {
  /** Null where everybody may come. */
  readonly familyToRanges: Readonly<Record<Family, FamilyRanges>> | null;
  /** What is no range, as it was written: nobody of it may come. */
  readonly malformed: readonly string[];
  readonly isTooLong: boolean;
}

interface FamilyRanges {
  /** In order. None meets another one. */
  readonly ranges: readonly AddressRange[];
  /** The same as the fewest CIDRs, an address without its length. */
  readonly texts: readonly string[];
}

const everybody: SourceRanges = { familyToRanges: null, malformed: [], isTooLong: false };

/** Lists live as long as the Service's object: endpoints change all the time, and the list does not. */
const known = new WeakMap<readonly string[], SourceRanges>();

/** Reads a list: one without a range of a family is nobody of that family, and one of blanks is no list. The same answer for the same array. */
export function readSourceRanges(list: readonly string[] | null | undefined): SourceRanges {
  if (list === null || list === undefined) return everybody;
  const found = known.get(list) ?? read(list);
  known.set(list, found);
  return found;
}

function read(list: readonly string[]): SourceRanges {
  if (list.length > maxSourceRanges) return { ...everybody, isTooLong: true };
  const given = list.map((text) => text.trim()).filter((text) => text !== '');
  if (given.length === 0) return everybody;
  const ranges = given.map(parseSourceRange);
  const merged = mergeRanges(ranges.filter((range) => range !== null));
  const ofFamily = (family: Family): FamilyRanges => {
    const own = merged.filter((range) => range.family === family);
    return { ranges: own, texts: own.flatMap(listBlocks).map(toPrefix) };
  };
  return {
    familyToRanges: Object.fromEntries(families.map((family) => [family, ofFamily(family)])) as Record<
      Family,
      FamilyRanges
    >,
    malformed: given.filter((_, at) => ranges[at] === null),
    isTooLong: false,
  };
}

/** `10.1.2.3/8` is its network's. An address alone is itself. Decimal and without leading zeros: others read them as octal. */
function parseSourceRange(text: string): AddressRange | null {
  const [, base = '', length] = /^([^/]+)(?:\/(0|[1-9]\d{0,2}))?$/.exec(text) ?? [];
  const address = parseAddress(base);
  return address === null ? null : toBlock(address, Number(length ?? familyToBits[address.family]));
}

/**
 * Who may come to some addresses of a family; null for everybody. A host that holds a Service's address asks from that address: where the
 * host may come, so may it (kube-proxy does the same). The same array for the same list, unless that adds something.
 */
export function listSources(
  { familyToRanges }: SourceRanges,
  family: Family,
  { addresses, local }: { readonly addresses: readonly string[]; readonly local: ReadonlySet<string> },
): readonly string[] | null {
  if (familyToRanges === null) return null;
  const { ranges, texts } = familyToRanges[family];
  if (!numberLocal(local)[family].some((number) => isInRanges(number, ranges))) return texts;
  const outside = addresses.filter((text) => !isInRanges(toNumber({ family, text }), ranges));
  return outside.length === 0 ? texts : [...texts, ...outside].sort();
}

type Numbers = Readonly<Record<Family, readonly bigint[]>>;

const localToNumbers = new WeakMap<ReadonlySet<string>, Numbers>();

/** A host may have thousands, and each Service with ranges asks. */
function numberLocal(local: ReadonlySet<string>): Numbers {
  const addresses = () => [...local].map(parseAddress).filter((one): one is Address => one !== null);
  const numbers = localToNumbers.get(local) ?? sortOut(addresses());
  localToNumbers.set(local, numbers);
  return numbers;
}

function sortOut(addresses: readonly Address[]): Numbers {
  const ofFamily = (family: Family) => addresses.filter((one) => one.family === family).map(toNumber);
  return { ipv4: ofFamily('ipv4'), ipv6: ofFamily('ipv6') };
}

/** By halves: ranges are in order. */
function isInRanges(number: bigint, ranges: readonly AddressRange[]): boolean {
  let [from, to] = [0, ranges.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    const range = ranges[middle];
    if (range !== undefined && range.first <= number && number <= range.last) return true;
    if (range !== undefined && range.first > number) to = middle;
    else from = middle + 1;
  }
  return false;
}
