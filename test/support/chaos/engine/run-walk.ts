import { setTimeout as sleep } from 'node:timers/promises';
import { isQuiet, quiet, type Walk } from './walk.ts';
import type { World } from './world.ts';

export interface Limits {
  /** After so long in quiet everything has to be right, */
  readonly quietMs: number;
  /** and after so many judgements: on a busy machine these take as much longer as everything else does. */
  readonly judgements: number;
  /** What is right has to be right once more after so long; 0: not again, for a world whose judgement takes its time itself. */
  readonly steadyMs: number;
}

export interface Failure {
  /** How many steps were made. */
  readonly step: number;
  /** The walk as far as it went: the rest has nothing to do with it. */
  readonly walk: Walk;
  readonly complaints: readonly string[];
  /** What the world says of itself, see `World.describe`. */
  readonly description: string;
}

/** How often the world is judged while it settles. */
const pollMs = 100;

/**
 * The product's promise is ten seconds. What may take longer by design (an apiserver that hangs is left after three questions of 3 s
 * each, one that fails when all others have just done so after 15 s) has to be over, too.
 */
export const defaultLimits: Limits = { quietMs: 20_000, judgements: 40, steadyMs: 300 };

/**
 * Runs a walk over a world up to its end, which the world does not survive, or to the first complaint; closes it in either case.
 * Answers the failure, or null. Rejects when the world itself fails.
 */
export async function runWalk(world: World, walk: Walk, limits = defaultLimits): Promise<Failure | null> {
  let made = 0;
  try {
    const opening = await settle(world, limits);
    if (opening.length > 0) return fail(world, { step: 0, walk: [], complaints: opening });
    for (const [index, step] of [...walk, quiet].entries()) {
      const complaints = isQuiet(step) ? await settle(world, limits) : await perform(world, step);
      if (!isQuiet(step)) made += 1;
      if (complaints.length > 0)
        return fail(world, { step: made, walk: walk.slice(0, index + 1), complaints });
    }
    const complaints = [...(await world.finish()), ...world.takeBreaches()];
    return complaints.length > 0 ? fail(world, { step: made, walk, complaints }) : null;
  } finally {
    await world.close();
  }
}

function fail(world: World, failure: Omit<Failure, 'description'>): Failure {
  return { ...failure, description: world.describe() };
}

async function perform(world: World, step: Walk[number]): Promise<readonly string[]> {
  await sleep(step.pauseMs ?? 0);
  await world.perform(step);
  return world.takeBreaches();
}

/** Makes quiet, and waits until all is right and stays so; answers what is still wrong when the time is over. */
async function settle(world: World, limits: Limits): Promise<readonly string[]> {
  await world.calm();
  const deadline = performance.now() + limits.quietMs;
  for (let judgement = 1; ; judgement += 1) {
    const complaints = await judgeTwice(world, limits.steadyMs);
    const breaches = world.takeBreaches();
    if (breaches.length > 0) return breaches;
    if (complaints.length === 0) return [];
    if (performance.now() > deadline && judgement >= limits.judgements) return complaints;
    await sleep(pollMs);
  }
}

async function judgeTwice(world: World, steadyMs: number): Promise<readonly string[]> {
  const complaints = await world.judge();
  if (complaints.length > 0 || steadyMs === 0) return complaints;
  await sleep(steadyMs);
  return world.judge();
}
