/** Which seats a pool has: who shall hold them, and by which address each is known. What is there stays as far as it can. */
import { type Address, families, type Family, parseAddress } from '../../lib/address/address.ts';
import { findVrid } from '../../lib/keepalived/vrid.ts';
import { type Seat } from '../../lib/services/objects.ts';
import { type AddressRange, contains, countOfFamily, getNth } from '../../lib/services/ranges.ts';
import { hashToNumber } from './address-walk.ts';

/** What seats are made from. */
export interface SeatsRequest {
  readonly pool: string;
  readonly ranges: readonly AddressRange[];
  /** As the pool asks for. */
  readonly count: number;
  readonly before: readonly Seat[];
  /** Whether VirtualIPs have an index. */
  readonly isUsed: (index: number) => boolean;
  /** Whether an address can become an anchor: nobody outside of this pool has it. */
  readonly isFree: (address: Address) => boolean;
  /** Whether a VirtualIP of another pool has an address: it cannot even stay an anchor, or two seats would hold it. */
  readonly isOthers: (address: Address) => boolean;
  /** Names of the nodes that may hold them. */
  readonly nodes: readonly string[];
  /** VRIDs of other pools and of others, for each family. */
  readonly takenVrids: Readonly<Record<Family, ReadonlySet<number>>>;
}

/** A range of 256 has every last byte. Ranges with fewer are looked through together up to here. */
const maxTries = 4096n;

/** The seats. Fewer than asked for when the pool has not so many addresses, or no VRID is free. */
export function assignSeats(request: SeatsRequest): Seat[] {
  const { count, before, isUsed } = request;
  const anchors = chooseAnchors(request);
  const wanted = anchors.slice(0, count).map((each, index) => ({
    index,
    anchors: each,
    nodes: before.find((seat) => seat.index === index)?.nodes ?? [],
  }));
  const surplus = before.filter(({ index }) => index >= wanted.length && isUsed(index));
  return orderNodes(request, [...wanted, ...surplus]);
}

/** One address of each family for each seat: the one it had, else the pool's first whose VRID is free. */
function chooseAnchors(request: SeatsRequest): string[][] {
  const { ranges, count } = request;
  const own = families.filter((family) => countOfFamily(ranges, family) > 0n);
  if (own.length === 0) return [];
  const perFamily = own.map((family) => chooseFamilyAnchors(request, family));
  const found = Math.min(count, ...perFamily.map((anchors) => anchors.length));
  return Array.from({ length: found }, (_, index) => perFamily.map((anchors) => anchors[index] ?? ''));
}

function chooseFamilyAnchors(request: SeatsRequest, family: Family): string[] {
  const { ranges, count, before, takenVrids, isFree, isOthers } = request;
  const taken = new Set(takenVrids[family]);
  const chosen: (string | null)[] = [];
  const take = (address: Address | null): string | null => {
    const vrid = address === null ? null : findVrid(address);
    if (address === null || vrid === null || taken.has(vrid)) return null;
    taken.add(vrid);
    return address.text;
  };
  for (let index = 0; index < count; index += 1) {
    const known = (before.find((seat) => seat.index === index)?.anchors ?? [])
      .map(parseAddress)
      .find((address) => address?.family === family);
    const isStill =
      known?.family === family && ranges.some((range) => contains(range, known)) && !isOthers(known);
    chosen.push(isStill ? take(known) : null);
  }
  const all = listFirst(ranges, family);
  return fill(chosen, all, (address) => (isFree(address) ? take(address) : null));
}

/** Those without an anchor get the first that can be taken; the ones after the last that got one are left out. */
function fill(
  chosen: readonly (string | null)[],
  all: Iterator<Address>,
  take: (address: Address) => string | null,
): string[] {
  const filled: string[] = [];
  for (const anchor of chosen) {
    let found = anchor;
    while (found === null) {
      const next = all.next();
      if (next.done === true) return filled;
      found = take(next.value);
    }
    filled.push(found);
  }
  return filled;
}

function* listFirst(ranges: readonly AddressRange[], family: Family): Generator<Address> {
  const count = countOfFamily(ranges, family);
  for (let index = 0n; index < count && index < maxTries; index += 1n) yield getNth(ranges, family, index);
}

/** VRIDs of anchors, for each family. */
export function listVrids(seats: readonly Seat[], family: Family): number[] {
  const addresses = seats.flatMap(({ anchors }) => anchors).map(parseAddress);
  return addresses.flatMap((address) => {
    const vrid = address?.family === family ? findVrid(address) : null;
    return vrid === null ? [] : [vrid];
  });
}

/**
 * The seats with some nodes in their orders: each place of the order has each node the same number of times, as far as that goes. The first
 * place says who holds a seat, the second who gets it then. A node keeps its place unless it has it more often than its share. keepalived
 * does not preempt, so a new order moves no address.
 */
export function orderNodes(
  { pool, nodes }: Pick<SeatsRequest, 'pool' | 'nodes'>,
  seats: readonly Seat[],
): Seat[] {
  const known = new Set(nodes);
  const before = seats.map((seat) => seat.nodes.filter((node) => known.has(node)));
  // Each node is hashed once for a seat: a thousand nodes cost milliseconds.
  const ranked = seats.map(({ index }) => rankNodes(nodes, `${pool}/${index}`));
  const orders = seats.map(() => new Set<string>());
  const share = Math.ceil(seats.length / Math.max(1, nodes.length));
  for (let place = 0; place < nodes.length; place += 1) {
    const nodeToCount = new Map<string, number>();
    for (const [at, order] of orders.entries()) {
      const kept = before[at]?.[place];
      const isKept = kept !== undefined && !order.has(kept) && (nodeToCount.get(kept) ?? 0) < share;
      const node = isKept ? kept : chooseNode(ranked[at] ?? [], order, nodeToCount);
      nodeToCount.set(node, (nodeToCount.get(node) ?? 0) + 1);
      order.add(node);
    }
  }
  return seats.map((seat, at) => ({ ...seat, nodes: [...(orders[at] ?? [])] }));
}

function rankNodes(nodes: readonly string[], seat: string): string[] {
  const ranked = nodes.map((node) => ({ node, rank: hashToNumber(`${seat} ${node}`) }));
  return ranked.sort((one, other) => one.rank - other.rank).map(({ node }) => node);
}

/** Of those that are left, the first one that has this place least often. */
function chooseNode(
  ranked: readonly string[],
  order: ReadonlySet<string>,
  nodeToCount: ReadonlyMap<string, number>,
): string {
  let [chosen, least] = ['', Infinity];
  for (const node of ranked) {
    const count = order.has(node) ? Infinity : (nodeToCount.get(node) ?? 0);
    if (count < least) [chosen, least] = [node, count];
    if (least === 0) break;
  }
  return chosen;
}
