/** What was found out about this host, or one phrase that says why it could not be. */
export type Fact<T> = { readonly value: T } | { readonly unknown: string };

/** Something that a person should see to. */
export interface Finding {
  readonly level: 'warn' | 'fail';
  /** One line: what is so. */
  readonly title: string;
  /** One or two sentences: why it matters. */
  readonly why: string;
  /** What mends it: lines for a shell on this host. Where it is to be done elsewhere, or by choice, a comment says so. */
  readonly remedy: readonly string[];
}

/** A check could not be made: why. */
export interface NotChecked {
  readonly unknown: string;
}

type Values<T extends readonly Fact<unknown>[]> = {
  -readonly [K in keyof T]: T[K] extends Fact<infer V> ? V : never;
};

/** Findings from facts that are all known, or else why the first unknown one is. */
export function given<const T extends readonly Fact<unknown>[]>(
  facts: T,
  find: (...values: Values<T>) => readonly Finding[],
): readonly Finding[] | NotChecked {
  const gap = facts.find((fact) => 'unknown' in fact);
  if (gap !== undefined && 'unknown' in gap) return { unknown: gap.unknown };
  const values = facts.map((fact) => ('value' in fact ? fact.value : undefined));
  return find(...(values as Values<T>));
}
