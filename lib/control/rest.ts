/**
 * What looking owes: two milliseconds of rest for each one that it took, so that it takes at most a third of any span
 * of time (I14). Rest is paid while no look is under way. Pure.
 */
export interface Debt {
  readonly owedMs: number;
  /** When it was that much, by the Clock. */
  readonly at: number;
}

/** Nothing was looked at yet. */
export const noDebt: Debt = { owedMs: 0, at: 0 };

const restPerLook = 2;

/** Tools that hang take their time from nobody: after however long a look, the next one is this near. */
export const maxRestMs = 60_000;

/** From when to when a look lasted, by the Clock. */
export interface LookSpan {
  readonly started: number;
  readonly ended: number;
}

/** The debt after one more look, of `mostMs` at most. */
export function addLook(debt: Debt, { started, ended }: LookSpan, mostMs: number): Debt {
  const owedMs = owedAt(debt, started) + (ended - started) * restPerLook;
  return { owedMs: Math.min(mostMs, owedMs), at: ended };
}

/** How long to wait until no more than `aheadMs` is owed. */
export function restMs(debt: Debt, now: number, aheadMs: number): number {
  return Math.max(0, owedAt(debt, now) - aheadMs);
}

function owedAt({ owedMs, at }: Debt, now: number): number {
  return Math.max(0, owedMs - (now - at));
}
