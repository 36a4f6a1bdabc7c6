/** With what chance a rule takes a connection that gets to it: `weight` of `left`. */
export interface Chance {
  readonly weight: number;
  /** The weight of this rule's choice and of all after it: the last one takes all that is left. */
  readonly left: number;
}

/**
 * The choices in their order, each with the chance by which rules that are tried one after the other give it its share
 * of new connections: its weight of the sum of all. Weights are whole numbers and 1 where nothing else is said. One of
 * weight 0 is left out: it gets no new connection, and its open ones live, for these rules see only what opens one
 * (docs/adr/0015). Pure.
 */
export function toChances<T>(
  choices: readonly T[],
  weigh: (choice: T) => number = () => 1,
): (Chance & { readonly choice: T })[] {
  const weighed = choices
    .map((choice) => ({ choice, weight: weigh(choice) }))
    .filter(({ weight }) => weight > 0);
  const unit = weighed.reduce((divisor, { weight }) => findCommonDivisor(divisor, weight), 0);
  return weighed.map(({ choice, weight }, index) => ({
    choice,
    weight: weight / unit,
    left: weighed.slice(index).reduce((sum, one) => sum + one.weight / unit, 0),
  }));
}

/** The greatest, by Euclid. */
function findCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : findCommonDivisor(b, a % b);
}

/**
 * The weights of choices of which rules, tried one after the other, take these parts of what gets to them; undefined where each is as
 * likely, or a part is none. Their sum is `unit` times their number. Pure and total.
 */
export function toWeightsOf(parts: readonly number[], unit: number): readonly number[] | undefined {
  let left = 1;
  const weights = parts.map((part) => {
    const share = left * part;
    left -= share;
    return Math.round(share * parts.length * unit);
  });
  const isWhole = weights.every((weight) => weight > 0) && weights.some((weight) => weight !== unit);
  return isWhole ? weights : undefined;
}
