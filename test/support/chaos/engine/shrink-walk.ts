import { joinBursts, splitBursts, type Step, type Walk } from './walk.ts';

export interface Shrunk {
  /** The shortest walk that was seen to fail; the given one when no try of it failed. */
  readonly walk: Walk;
  /** Whether it failed in every one of its tries; a flaky walk depends on chance, mostly on who is faster. */
  readonly isFlaky: boolean;
  readonly tries: number;
}

/** A walk that failed is given so many chances to fail again before it is called flaky. */
const chances = 3;

/**
 * Looks for the shortest walk that still fails, by leaving out steps (Zeller's ddmin), for as long as it may take. The world
 * was right at the end of each burst but the last, so the last ones alone are tried first.
 */
export async function shrinkWalk(
  walk: Walk,
  fails: (walk: Walk) => Promise<boolean>,
  limitMs: number,
): Promise<Shrunk> {
  const deadline = performance.now() + limitMs;
  let tries = 0;
  const test = async (candidate: Walk) => {
    tries += 1;
    return performance.now() < deadline && (await fails(candidate));
  };
  const isTimeUp = () => performance.now() >= deadline;
  const found = await findTail(walk, test);
  if (found === null) {
    for (let chance = 0; chance < chances && !isTimeUp(); chance += 1)
      if (await test(walk)) return { walk: await minimise(walk, test, isTimeUp), isFlaky: chance > 0, tries };
    return { walk, isFlaky: true, tries };
  }
  return { walk: await minimise(found, test, isTimeUp), isFlaky: false, tries };
}

/** The last burst, the last two, four and so on, whichever is the first that fails; null for none but all. */
async function findTail(walk: Walk, fails: (walk: Walk) => Promise<boolean>): Promise<Walk | null> {
  const bursts = splitBursts(walk);
  for (let count = 1; count < bursts.length; count *= 2) {
    const tail = joinBursts(bursts.slice(-count));
    if (await fails(tail)) return tail;
  }
  return null;
}

/** ddmin: the steps without one part of them after another, in ever smaller parts. */
async function minimise(
  walk: Walk,
  fails: (walk: Walk) => Promise<boolean>,
  isTimeUp: () => boolean,
): Promise<Walk> {
  let current: readonly Step[] = walk;
  let parts = Math.min(2, current.length);
  while (current.length > 1 && !isTimeUp()) {
    const shorter = await leaveOut(current, parts, fails);
    if (shorter !== null) {
      current = shorter;
      parts = Math.max(parts - 1, 2);
    } else if (parts < current.length) parts = Math.min(parts * 2, current.length);
    else break;
  }
  return current;
}

/** The steps without the first of so many parts that is not needed for the failure, or null. */
async function leaveOut(
  steps: readonly Step[],
  parts: number,
  fails: (walk: Walk) => Promise<boolean>,
): Promise<readonly Step[] | null> {
  const size = Math.ceil(steps.length / parts);
  for (let start = 0; start < steps.length; start += size) {
    const rest = [...steps.slice(0, start), ...steps.slice(start + size)];
    // The end of a burst alone cannot be the cause of anything.
    if (splitBursts(rest).length > 0 && (await fails(rest))) return rest;
  }
  return null;
}
