import { type Memory, printKey } from './memory.ts';
import { type Plan } from './plan.ts';

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
