/** How many slots each of some endpoints gets, by their weights. */

/** The same shares by the smallest whole numbers. All alike where all weights are 0: somebody has to serve. */
export function reduceWeights(weights: readonly number[]): number[] {
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
