/**
 * Which slot leads to which endpoint. A connection gets a slot at random, in turn or by its client's address; so as many slots
 * as endpoints are even shares, and as many as their weights are shares by weight.
 */

/** Of the hash of a client's address: the same on every node, so that a client keeps its endpoint when the address moves. */
export const hashSeed = '0x7669706e';

/** Endpoints to how many connections each gets, compared with the others. */
export type Weights = ReadonlyMap<string, number>;

/** A port has no more slots, unless it has more endpoints: shares are rounded then. */
export const maxSlots = 1024;

/** Slots by weight, in the order of before: what stays keeps its slots, and those behind fill gaps. One for each where all weights are the same. */
export function fillSlots(before: readonly string[], wanted: Weights): string[] {
  const ends = [...wanted.keys()];
  const exact = reduceWeights([...wanted.values()]);
  const total = sum(exact);
  const limit = Math.max(maxSlots, ends.length);
  return placeSlots(before, ends, total <= limit ? exact : countSlots(exact, limit));
}

/** So many slots for each endpoint of the method `lc`: shares are rounded to a twentieth of an even one. */
const sharedSlots = 20;

/**
 * Slots by weight times part, see `shareByCounts`; in the order of before, as `fillSlots`. Their number does not depend on parts: changed
 * ones change elements, and no rule. With null, nothing is known yet: each keeps as many as it has, and one that is new gets its part by weight.
 */
export function shareSlots(
  before: readonly string[],
  wanted: Weights,
  parts: readonly number[] | null,
): string[] {
  const [ends, weights] = [[...wanted.keys()], reduceWeights([...wanted.values()])];
  const isEven = weights.every((weight) => weight === 1);
  const total = Math.max(ends.length, isEven ? Math.min(maxSlots, ends.length * sharedSlots) : maxSlots);
  const shares =
    parts === null
      ? readShares(before, ends, weights)
      : weights.map((weight, at) => weight * (parts[at] ?? 1));
  return placeSlots(before, ends, countSlots(shares, total));
}

/** The slots that each end has; for one without, the number that its weight gives in proportion to the others. */
function readShares(before: readonly string[], ends: readonly string[], weights: readonly number[]) {
  const endToCount = new Map(ends.map((end) => [end, 0]));
  for (const end of before) if (endToCount.has(end)) endToCount.set(end, (endToCount.get(end) ?? 0) + 1);
  const counts = ends.map((end) => endToCount.get(end) ?? 0);
  const known = sum(weights.filter((_, at) => (counts[at] ?? 0) > 0));
  const unit = known === 0 ? 1 : sum(counts) / known;
  return counts.map((count, at) => (count > 0 ? count : (weights[at] ?? 0) * unit));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((before, one) => before + one, 0);
}

/** So many slots for each end. */
function placeSlots(before: readonly string[], ends: readonly string[], counts: readonly number[]): string[] {
  const left = new Map(ends.map((end, at) => [end, counts[at] ?? 0]));
  const slots = Array.from({ length: sum(counts) }, (_, at) => {
    const kept = before[at] ?? '';
    const count = left.get(kept) ?? 0;
    if (count === 0) return null;
    left.set(kept, count - 1);
    return kept;
  });
  const fill = spread(left).values();
  return slots.map((kept) => kept ?? (fill.next().value as string));
}

/** So many of each, and those of one as far from each other as that goes: taken in turn, none gets all of its slots in a row. */
function spread(endToCount: ReadonlyMap<string, number>): string[] {
  const places = [...endToCount].flatMap(([end, count]) =>
    Array.from({ length: count }, (_, at) => ({ end, place: (at + 0.5) / count })),
  );
  return places.sort((one, other) => one.place - other.place).map(({ end }) => end);
}

/** Numbers of slots for clients that keep their endpoint while others come and go: primes, as the permutations need. */
const tableSizes = [251, 1021, 4093, 16_381] as const;

/** So many slots for each endpoint, at least: shares differ by one slot. */
const slotsPerEndpoint = 8;

/** How many slots `hashSlots` has for so many endpoints, if there are any. */
export function countHashSlots(endpoints: number): number {
  return tableSizes.find((count) => count >= endpoints * slotsPerEndpoint) ?? tableSizes[3];
}

/**
 * Slots for clients by their address: when an endpoint goes, or its weight changes, few clients but its own get another. The same on
 * every node. Their number does not depend on weights: with another one, most clients would get another endpoint.
 * Source: Maglev (NSDI 2016), 3.4.
 */
export function hashSlots(wanted: Weights): string[] {
  const size = countHashSlots(wanted.size);
  const walks = [...wanted.keys()].map((endpoint) => ({
    endpoint,
    at: hash(`${endpoint} offset`) % size,
    step: (hash(`${endpoint} step`) % (size - 1)) + 1,
  }));
  const slots = new Array<string | null>(size).fill(null);
  if (walks.length === 0) return [];
  for (const turn of listTurns([...wanted.values()], size)) {
    const walk = walks[turn];
    if (walk === undefined) break;
    while (slots[walk.at] !== null) walk.at = (walk.at + walk.step) % size;
    slots[walk.at] = walk.endpoint;
  }
  return slots.map((endpoint) => endpoint ?? '');
}

/** Who takes the next slot, until all are taken: an endpoint of twice the weight comes twice as often. */
function listTurns(weights: readonly number[], size: number): number[] {
  const reduced = reduceWeights(weights);
  const counts = countSlots(reduced, size);
  const turns = counts.flatMap((count, at) =>
    Array.from({ length: count }, (_, round) => ({ at, due: round / (reduced[at] ?? 1) })),
  );
  return turns.sort((one, other) => one.due - other.due || one.at - other.at).map(({ at }) => at);
}

/** FNV-1a of 32 bits, mixed once more: addresses of pods differ in their last characters only. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (const character of text) value = Math.imul(value ^ (character.codePointAt(0) ?? 0), 0x01000193);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  return (value ^ (value >>> 13)) >>> 0;
}

/** The same shares by the smallest whole numbers. All alike where all weights are 0: somebody has to serve. */
function reduceWeights(weights: readonly number[]): number[] {
  const divisor = weights.reduce(findDivisor, 0);
  return divisor === 0 ? weights.map(() => 1) : weights.map((weight) => weight / divisor);
}

function findDivisor(one: number, other: number): number {
  return other === 0 ? one : findDivisor(other, one % other);
}

/**
 * Shares of so many slots: each differs from the exact one by less than a slot, but that every endpoint with a weight has one, as
 * far as slots go. Where shares are equally far from exact ones, the first of the list are ahead.
 */
export function countSlots(weights: readonly number[], total: number): number[] {
  const sum = weights.reduce((before, weight) => before + weight, 0);
  const exact = weights.map((weight) => (sum === 0 ? 0 : (total * weight) / sum));
  const counts = exact.map((share, at) => (weights[at] === 0 ? 0 : Math.max(1, Math.floor(share))));
  const used = counts.reduce((before, count) => before + count, 0);
  return used <= total ? giveRest(counts, exact, total - used) : takeSurplus(counts, exact, used - total);
}

/** To those that are the furthest below their share. */
function giveRest(counts: readonly number[], exact: readonly number[], rest: number): number[] {
  const lacking = counts
    .map((count, at) => ({ at, lack: (exact[at] ?? 0) - count }))
    .filter(({ at }) => (counts[at] ?? 0) > 0)
    .sort((one, other) => other.lack - one.lack || one.at - other.at);
  const ahead = new Set(lacking.slice(0, rest).map(({ at }) => at));
  return counts.map((count, at) => count + Number(ahead.has(at)));
}

/** From those that have the most, as each of the others has only one. */
function takeSurplus(counts: readonly number[], exact: readonly number[], surplus: number): number[] {
  const left = [...counts];
  for (let taken = 0; taken < surplus; taken += 1) {
    const at = findMost(left, exact) ?? left.findLastIndex((count) => count > 0);
    left[at] = (left[at] ?? 0) - 1;
  }
  return left;
}

/** Who is the furthest above its share, and can spare a slot; null where there are more endpoints than slots: the last ones get none. */
function findMost(counts: readonly number[], exact: readonly number[]): number | null {
  let most: { at: number; surplus: number } | null = null;
  for (const [at, count] of counts.entries()) {
    const surplus = count - (exact[at] ?? 0);
    if (count > 1 && (most === null || surplus > most.surplus)) most = { at, surplus };
  }
  return most?.at ?? null;
}
