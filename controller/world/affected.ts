import { type StepKey, type WaitsFor } from './keys.ts';

/** What is to be looked at after a change: these keys, and all keys whose last step waits for one of these. */
export interface Affected {
  readonly keys: readonly StepKey[];
  readonly wakes: ReadonlySet<WaitsFor>;
}

/** Nothing is to be looked at. */
export const unaffected: Affected = { keys: [], wakes: new Set() };

/** What is to be looked at after several changes. */
export function joinAffected(parts: readonly Affected[]): Affected {
  return {
    keys: parts.flatMap(({ keys }) => keys),
    wakes: new Set(parts.flatMap(({ wakes }) => [...wakes])),
  };
}
