/** What was found out about this host, or one phrase that says why it could not be. */
export type Fact<T> = { readonly value: T } | NotChecked;

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

/** A check could not be made: why, in one phrase. */
export interface NotChecked {
  readonly unknown: string;
}

/** What is looked for cannot be on this host: why, in one phrase. That is as good as all being well. */
export interface NotHere {
  readonly notHere: string;
}

/** Something was looked at: what was found, and why some of it could not be looked at. */
export interface Looked {
  readonly findings: readonly Finding[];
  /** One phrase each. */
  readonly gaps: readonly string[];
}

/** What a check comes to. `lookAt` makes it, so that a check without anything to look at is never told to be well. */
export type Verdict = Looked | NotChecked | NotHere;

/**
 * Looks at things one by one. Of each are told findings, none when it is well, or why it could not be looked at.
 * Without any the verdict is `otherwise`. Pure.
 */
export function lookAt<T>(
  subjects: readonly T[],
  otherwise: NotChecked | NotHere,
  find: (subject: T) => readonly Finding[] | NotChecked,
): Verdict {
  if (subjects.length === 0) return otherwise;
  const all = subjects.map(find);
  return {
    findings: all.flatMap((one) => ('unknown' in one ? [] : one)),
    gaps: [...new Set(all.flatMap((one) => ('unknown' in one ? [one.unknown] : [])))],
  };
}

/** Looks at the host as a whole, where there is always something to look at. */
export function lookAtHost(find: () => readonly Finding[] | NotChecked): Verdict {
  const found = find();
  return 'unknown' in found ? found : { findings: found, gaps: [] };
}

type Values<T extends readonly Fact<unknown>[]> = {
  -readonly [K in keyof T]: T[K] extends Fact<infer V> ? V : never;
};

/** What comes of facts that are all known, or else why the first unknown one is. */
export function given<const T extends readonly Fact<unknown>[], R>(
  facts: T,
  find: (...values: Values<T>) => R,
): R | NotChecked {
  const gap = facts.find((fact) => 'unknown' in fact);
  if (gap !== undefined && 'unknown' in gap) return { unknown: gap.unknown };
  const values = facts.map((fact) => ('value' in fact ? fact.value : undefined));
  return find(...(values as Values<T>));
}
