import { type Memory, printKey } from '../observe/memory.ts';
import { type Plan } from '../decide/plan.ts';

/** Rules that carried our id but read differently, right after a write of ours; by print key. */
export type Suspects = ReadonlyMap<string, string>;

/** The rules of a plan that were written as wanted and are printed as something else. */
export function findSuspects({ tables }: Plan): Suspects {
  return new Map(
    tables.flatMap(({ backend, drift }) =>
      drift.flatMap(({ kind, rule, id }) =>
        kind === 'edited-rule' && rule !== undefined && id !== undefined
          ? [[printKey(backend, id), rule] as const]
          : [],
      ),
    ),
  );
}

/**
 * Believes the tool when it printed a rule of ours in the same unknown way after two writes on end: then that is
 * how this version prints it, and not somebody's edit between our write and our look.
 */
export function learnPrints(memory: Memory, before: Suspects, now: Suspects): Memory {
  const confirmed = [...now].filter(([key, printed]) => before.get(key) === printed);
  return confirmed.length === 0 ? memory : { ...memory, prints: new Map([...memory.prints, ...confirmed]) };
}

/** The writes of ours on end that no look has found in place, and what is learnt from how they were printed. */
export class UnverifiedWrites {
  #count = 0;
  #isFresh = false;
  #suspects: Suspects = new Map();

  /** How many they are. */
  get count(): number {
    return this.#count;
  }

  /** To be called after each write that succeeded. */
  add(): void {
    this.#count += 1;
    this.#isFresh = true;
  }

  /** To be called when they say nothing any more: all is in place, something else is wanted, or a tool failed. */
  forget(): void {
    this.#count = 0;
    this.#isFresh = false;
    this.#suspects = new Map();
  }

  /**
   * To be called with every look. Answers the memory with the prints that are believed now, or the same one. What two looks see
   * with no write of ours between them is learnt by neither: an edit stays, too.
   */
  learn(memory: Memory, plan: Plan): Memory {
    if (!this.#isFresh) return memory;
    this.#isFresh = false;
    const now = findSuspects(plan);
    const learnt = learnPrints(memory, this.#suspects, now);
    this.#suspects = now;
    return learnt;
  }
}
