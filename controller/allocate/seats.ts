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
  /** Indices that VirtualIPs have. */
  readonly used: ReadonlySet<number>;
  /** Names of the nodes that may hold them. */
  readonly nodes: readonly string[];
  /** VRIDs of other pools and of others, for each family. */
  readonly takenVrids: Readonly<Record<Family, ReadonlySet<number>>>;
}

/** A range of 256 has every last byte. Ranges with fewer are looked through together up to here. */
const maxTries = 4096n;

/** The seats. Fewer than asked for when the pool has not so many addresses, or no VRID is free. */
export function assignSeats(request: SeatsRequest): Seat[] {
  const { count, before, used } = request;
  const anchors = chooseAnchors(request);
  const wanted = anchors.slice(0, count).map((each, index) => ({
    index,
    anchors: each,
    nodes: before.find((seat) => seat.index === index)?.nodes ?? [],
  }));
  const surplus = before.filter(({ index }) => index >= wanted.length && used.has(index));
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

function chooseFamilyAnchors({ ranges, count, before, takenVrids }: SeatsRequest, family: Family): string[] {
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
    const isStill = known?.family === family && ranges.some((range) => contains(range, known));
    chosen.push(isStill ? take(known) : null);
  }
  const all = listFirst(ranges, family);
  return fill(chosen, all, take);
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
 * Gives each place of the order the same number of times to each node, as far as that goes: the first place says who holds a seat,
 * the second who gets it then. A node keeps its place unless it has it more often than its share. keepalived does not preempt, so
 * a new order moves no address.
 */
function orderNodes({ pool, nodes }: SeatsRequest, seats: readonly Seat[]): Seat[] {
  const known = new Set(nodes);
  const before = seats.map((seat) => seat.nodes.filter((node) => known.has(node)));
  const orders: string[][] = seats.map(() => []);
  const share = Math.ceil(seats.length / Math.max(1, nodes.length));
  for (let place = 0; place < nodes.length; place += 1) {
    const nodeToCount = new Map<string, number>();
    for (const [at, seat] of seats.entries()) {
      const order = orders[at] ?? [];
      const kept = before[at]?.[place];
      const isKept = kept !== undefined && !order.includes(kept) && (nodeToCount.get(kept) ?? 0) < share;
      const node = isKept
        ? kept
        : chooseNode(
            nodes.filter((each) => !order.includes(each)),
            (each) => [nodeToCount.get(each) ?? 0, hashToNumber(`${pool}/${seat.index} ${each}`)],
          );
      nodeToCount.set(node, (nodeToCount.get(node) ?? 0) + 1);
      order.push(node);
    }
  }
  return seats.map((seat, at) => ({ ...seat, nodes: orders[at] ?? [] }));
}

function chooseNode(nodes: readonly string[], rank: (node: string) => [number, number]): string {
  const ranked = nodes.map((node) => ({ node, rank: rank(node) }));
  ranked.sort(({ rank: [a, b] }, { rank: [c, d] }) => a - c || b - d);
  return ranked[0]?.node ?? '';
}
