/** Which seats a pool has: who shall hold them, and by which numbers each is known. What is there stays as far as it can. */
import {
  type AddressPool,
  type Seat,
  parseAnchor,
  anchorNumbers,
  toAnchor,
  mostSeatNodes,
} from '../../lib/api/vipnat.ts';
import {
  type AddressRange,
  type Family,
  families,
  countOfFamily,
  parseAddress,
  contains,
  getNth,
  type Address,
} from '../../lib/net.ts';
import { createHash } from 'node:crypto';
import { allVrids, parseVrids } from '../../lib/keepalived/read.ts';

/** What seats are made from. */
export interface SeatsRequest {
  readonly pool: AddressPool;
  readonly ranges: readonly AddressRange[];
  /** Whether VirtualIPs have an index. */
  readonly isUsed: (index: number) => boolean;
  /** An address of a family that VirtualIPs have; null for none. The pool may have none of this family any more. */
  readonly findGiven: (family: Family) => string | null;
  /** Names of the nodes that may hold them. */
  readonly nodes: readonly string[];
  readonly judgeNode: JudgeNode;
  /** Seats of other pools: of two that have a number, that of the younger pool gets another one. */
  readonly others: Readonly<Record<'older' | 'younger', readonly Seat[]>>;
  /** VRIDs that others on the network use. */
  readonly reservedVrids: ReadonlySet<number>;
}

/** What nodes say of the seat of an index: that they hold it, could hold it, or neither. */
type JudgeNode = (node: string, index: number) => 'holds' | 'able' | 'unable';

/** The seats of both families, by their indexes. Fewer than the pool asks for where no VRID is free. */
export function assignSeats(request: SeatsRequest): Seat[] {
  const { pool, ranges, isUsed } = request;
  const before = listReadable(pool.status?.seats ?? []);
  const indexes = new Set(before.map(({ index }) => index));
  const seats = families.flatMap((family) => {
    const count = countOfFamily(ranges, family) > 0n ? pool.spec.seats : countLeft(request, family, before);
    const stay = ofFamily(before, family).filter(({ index }, at) => at < count || isUsed(index));
    const added = Array.from({ length: Math.max(0, count - stay.length) }, () => addSeat(indexes));
    return numberSeats(request, family, [...stay, ...added]);
  });
  seats.sort((one, other) => one.index - other.index);
  return orderNodes(request, seats);
}

/**
 * Seats of a family that the pool has no addresses of. Those that are used stay. If addresses are given and none of these is, they get one: a
 * controller that did not know of them has taken theirs away.
 */
function countLeft({ isUsed, findGiven }: SeatsRequest, family: Family, before: readonly Seat[]): number {
  const isHeld = ofFamily(before, family).some(({ index }) => isUsed(index));
  return isHeld || findGiven(family) === null ? 0 : 1;
}

/** Without what another program has written there. */
function listReadable(seats: readonly Seat[]): Seat[] {
  const indexes = seats.map(({ index }) => index);
  return seats.filter(
    ({ index, anchor }, at) =>
      Number.isInteger(index) && index >= 0 && indexes.indexOf(index) === at && parseAnchor(anchor) !== null,
  );
}

/** The seats of a family that last. Those that the pool no longer asks for stay only until no address is there. */
function listLasting({ spec, status }: AddressPool, family: Family): readonly Seat[] {
  return ofFamily(status?.seats ?? [], family).slice(0, spec.seats);
}

function ofFamily(seats: readonly Seat[], family: Family): readonly Seat[] {
  return seats.filter(({ anchor }) => parseAnchor(anchor)?.address.family === family);
}

function addSeat(indexes: Set<number>): Seat {
  let index = 0;
  while (indexes.has(index)) index += 1;
  indexes.add(index);
  return { index, anchor: '', vrid: 0, network: '', nodes: [] };
}

/** Gives each seat of a family its own numbers. A used seat keeps a VRID that others use: another one would interrupt its Services. */
function numberSeats(request: SeatsRequest, family: Family, seats: readonly Seat[]): Seat[] {
  if (seats.length === 0) return [];
  const { pool, isUsed, reservedVrids } = request;
  const older = ofFamily(request.others.older, family);
  const younger = ofFamily(request.others.younger, family);
  // Two clusters on one network begin at different numbers. keepalived ignores adverts with its VRID and another anchor.
  const shuffle = (numbers: readonly number[], of: string) => {
    const at = hashToNumber(`${of} ${pool.metadata.uid} ${family}`) % numbers.length;
    return [...numbers.slice(at), ...numbers.slice(0, at)];
  };
  const wanted = pool.spec.vrids == null ? allVrids : parseVrids(pool.spec.vrids);
  const inOrder = () => (pool.spec.vrids == null ? shuffle(allVrids, 'VRIDs') : wanted);
  const mayStay = ({ vrid, index }: Seat) =>
    wanted.includes(vrid) && (isUsed(index) || !reservedVrids.has(vrid));
  const vrids = shareOut(
    seats.map((seat) => (mayStay(seat) ? seat.vrid : 0)),
    () => inOrder().filter((vrid) => !reservedVrids.has(vrid)),
    { older: older.map(({ vrid }) => vrid), younger: younger.map(({ vrid }) => vrid) },
  );
  const anchors = shareOut(seats.map(toNumber), () => shuffle(anchorNumbers, 'anchors'), {
    older: older.map(toNumber),
    younger: younger.map(toNumber),
  });
  return seats.flatMap(({ index, vrid: known, network, nodes }, at) => {
    const [anchor, vrid] = [anchors[at] ?? 0, vrids[at] ?? (isUsed(index) ? known : 0)];
    if (anchor === 0 || vrid === 0) return [];
    const part = { anchor: toAnchor(family, anchor), vrid, network: keepNetwork(network, request, family) };
    return [{ index, ...part, nodes }];
  });
}

function toNumber({ anchor }: Seat): number {
  return parseAnchor(anchor)?.number ?? 0;
}

/** To each the number that it had, else the first that nobody has; null where none is left. 0 is no number. */
function shareOut(
  known: readonly number[],
  listWanted: () => readonly number[],
  { older, younger }: Readonly<Record<'older' | 'younger', readonly number[]>>,
): (number | null)[] {
  const taken = new Set([0, ...older]);
  const kept = known.map((number) => {
    if (taken.has(number)) return null;
    taken.add(number);
    return number;
  });
  // Most steps of a pool change no seat: then no number is looked for.
  if (!kept.includes(null)) return kept;
  const others = new Set(younger);
  const free = listWanted().filter((number) => !taken.has(number) && !others.has(number));
  return kept.map((number) => number ?? free.shift() ?? null);
}

/** Of an address that the pool no longer has, its first one takes the place. Of a family that it no longer has, nothing does, or one that is given. */
function keepNetwork(text: string, { ranges, findGiven }: SeatsRequest, family: Family): string {
  const address = parseAddress(text);
  if (countOfFamily(ranges, family) === 0n) return address === null ? (findGiven(family) ?? text) : text;
  const isThere = address !== null && ranges.some((range) => contains(range, address));
  return isThere ? text : getNth(ranges, family, 0n).text;
}

/**
 * The seats with some nodes in their orders: each place of the order has each node the same number of times, as far as that goes. The first
 * place says who holds a seat, the second who gets it then. A node keeps its place unless it has it more often than its share. keepalived
 * does not preempt, so a new order moves no address.
 */
export function orderNodes(
  { pool, nodes, judgeNode }: Pick<SeatsRequest, 'pool' | 'nodes' | 'judgeNode'>,
  seats: readonly Seat[],
): Seat[] {
  const ranked = seats.map((seat) => limitNodes(seat, rankNodes(nodes, pool, seat), judgeNode));
  const before = seats.map((seat, at) => seat.nodes.filter((node) => ranked[at]?.includes(node)));
  const orders = seats.map(() => new Set<string>());
  const share = Math.ceil(seats.length / Math.max(1, nodes.length));
  for (let place = 0; place < Math.min(nodes.length, mostSeatNodes); place += 1) {
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

/** With fewer able nodes, a seat gets others for those that are not. With more it waits: they may come back, and one may hold the seat. */
const fewAble = 4;

/** The nodes that a seat names, by rank: it keeps who holds it and whom it has named, takes able ones next, and others where it has room. */
function limitNodes({ index, nodes }: Seat, ranked: readonly string[], judge: JudgeNode): readonly string[] {
  if (ranked.length <= mostSeatNodes) return ranked;
  const isAble = (node: string) => judge(node, index) !== 'unable';
  const known = new Set(ranked);
  const before = nodes.filter((node) => known.has(node));
  const isKept = before.slice(0, mostSeatNodes).filter(isAble).length >= fewAble;
  const inTurn = [
    ...before.filter((node) => judge(node, index) === 'holds'),
    ...(isKept ? before : before.filter(isAble)),
    ...ranked.filter(isAble),
    ...[...before, ...ranked],
  ];
  const chosen = new Set([...new Set(inTurn)].slice(0, mostSeatNodes));
  return ranked.filter((node) => chosen.has(node));
}

/** Each node is hashed once for a seat: a thousand nodes cost milliseconds. */
function rankNodes(nodes: readonly string[], { metadata: { name } }: AddressPool, { index }: Seat): string[] {
  const ranked = nodes.map((node) => ({ node, rank: hashToNumber(`${name}/${index} ${node}`) }));
  return ranked.sort((one, other) => one.rank - other.rank).map(({ node }) => node);
}

/** Of those that are left, the first one that has this place least often. */
function chooseNode(
  ranked: readonly string[],
  order: ReadonlySet<string>,
  nodeToCount: ReadonlyMap<string, number>,
): string {
  const count = (node: string) => nodeToCount.get(node) ?? 0;
  const left = ranked.filter((node) => !order.has(node));
  return left.sort((one, other) => count(one) - count(other))[0] ?? '';
}

/** The index of the seat that an address of a pool gets: one of its family, by its text. */
export function chooseSeat(address: Address, pool: AddressPool | undefined): number {
  const seats = pool === undefined ? [] : listLasting(pool, address.family);
  const hash = hashToNumber(address.text);
  // Of a pool whose seats are not known yet, as many as it asks for: it moves once they are, if it has to.
  return seats[hash % seats.length]?.index ?? hash % (pool?.spec.seats ?? 1);
}

/** The same for an address that has a seat: it keeps the seat as long as that lasts. */
export function keepSeat(address: Address, seat: number, pool: AddressPool | undefined): number {
  const seats = pool === undefined ? [] : listLasting(pool, address.family);
  return seats.length === 0 || seats.some(({ index }) => index === seat) ? seat : chooseSeat(address, pool);
}

/** A number below 2^32 that a text chooses. */
export function hashToNumber(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE();
}
