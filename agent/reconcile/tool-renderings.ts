import { type ReconcileState, renderingKey } from '../observe/reconcile-state.ts';
import { type Plan } from '../../lib/netfilter/plan/table-plan.ts';

/** Rules that carried our id but read differently, right after a write of ours; by `renderingKey`. */
export type UnknownRenderings = ReadonlyMap<string, string>;

/** The rules of a plan that were written as wanted and are printed as something else. */
export function findUnknownRenderings({ tables }: Plan): UnknownRenderings {
  return new Map(
    tables.flatMap(({ dialect, drift }) =>
      drift.flatMap(({ kind, rule, id }) =>
        kind === 'edited-rule' && rule !== undefined && id !== undefined
          ? [[renderingKey(dialect, id), rule] as const]
          : [],
      ),
    ),
  );
}

/**
 * Learns how this version of a tool prints a rule: as it did after two writes in a row. After one write only, the
 * difference may be an edit by other software.
 */
export function learnRenderings(
  memory: ReconcileState,
  before: UnknownRenderings,
  now: UnknownRenderings,
): ReconcileState {
  const confirmed = [...now].filter(([key, printed]) => before.get(key) === printed);
  return confirmed.length === 0
    ? memory
    : { ...memory, renderings: new Map([...memory.renderings, ...confirmed]) };
}

/** A tool may need two writes until its print is known. */
const maxUnverifiedWrites = 3;

/** The writes of ours on end that no look has found in place, and what is learnt from how they were printed. */
export class UnverifiedWrites {
  #count = 0;
  #isFresh = false;
  #unknownRenderings: UnknownRenderings = new Map();

  /** Whether one more would not help either. */
  get areTooMany(): boolean {
    return this.#count >= maxUnverifiedWrites;
  }

  /** To be called after each write that succeeded. */
  add(): void {
    this.#count += 1;
    this.#isFresh = true;
  }

  /** To be called when they say nothing any more: all is in place, something else is wanted, or a tool failed. */
  reset(): void {
    this.#count = 0;
    this.#isFresh = false;
    this.#unknownRenderings = new Map();
  }

  /**
   * To be called with every look. Answers the state with the renderings that are believed now, or the same one. What two looks see
   * with no write of ours between them is learnt by neither: an edit stays, too.
   */
  learn(memory: ReconcileState, plan: Plan): ReconcileState {
    if (!this.#isFresh) return memory;
    this.#isFresh = false;
    const now = findUnknownRenderings(plan);
    const learnt = learnRenderings(memory, this.#unknownRenderings, now);
    this.#unknownRenderings = now;
    return learnt;
  }
}
