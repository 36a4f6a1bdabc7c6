/** What a step can say of itself. */
export type Argument = string | number | boolean | readonly (string | number)[];

/** One step of a walk, as JSON: a fault by name, after a pause, with its arguments. */
export interface Step {
  readonly fault: string;
  /** How long nothing happens before it; 0 when left out. */
  readonly pauseMs?: number;
  readonly [argument: string]: Argument | undefined;
}

/**
 * A walk over faults. It is data: it can be printed, committed, replayed and shortened, and stays a walk whichever of its steps
 * are left out. A step whose fault is `quiet` ends a burst: there, and at the end, the world is judged.
 */
export type Walk = readonly Step[];

/** A walk that once failed, cut down to what it takes; or one to a place that walks found worth a visit each time. */
export interface FoundWalk {
  /** What went wrong, as a sentence about how it is now. */
  readonly name: string;
  readonly walk: Walk;
}

/** The step that ends a burst. It is the engine's own, and counts as none. */
export const quiet: Step = { fault: 'quiet' };

export function isQuiet(step: Step): boolean {
  return step.fault === quiet.fault;
}

export function countSteps(walk: Walk): number {
  return walk.filter((step) => !isQuiet(step)).length;
}

/** The walk's bursts in order, without the steps that end them; none is empty. */
export function splitBursts(walk: Walk): Step[][] {
  const bursts: Step[][] = [[]];
  for (const step of walk) {
    if (isQuiet(step)) bursts.push([]);
    else bursts.at(-1)?.push(step);
  }
  return bursts.filter((burst) => burst.length > 0);
}

export function joinBursts(bursts: readonly (readonly Step[])[]): Walk {
  return bursts.filter((burst) => burst.length > 0).flatMap((burst) => [...burst, quiet]);
}

/** How often each fault is in a walk, the most frequent first: `apiserver 12, flush 9`. */
export function describeFaults(walk: Walk): string {
  const faultToCount = new Map<string, number>();
  for (const { fault } of splitBursts(walk).flat())
    faultToCount.set(fault, (faultToCount.get(fault) ?? 0) + 1);
  return [...faultToCount]
    .sort(([one, oneCount], [other, otherCount]) => otherCount - oneCount || one.localeCompare(other))
    .map(([fault, count]) => `${fault} ${count}`)
    .join(', ');
}
