import { isLong } from '../../jest/extent.ts';

interface Choice {
  readonly seeds: readonly number[];
  readonly steps: number;
  readonly isLong: boolean;
}

const longSeeds = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

/**
 * The walks that `scripts/test chaos --seed N --steps N --long` asks for: one seed when it is given, ten in the long version, and
 * else these few.
 */
export function chooseWalks(short: Omit<Choice, 'isLong'>, longSteps: number): Choice {
  const { CHAOS_SEED: seed, CHAOS_STEPS: steps } = process.env;
  const seeds = isLong ? longSeeds : short.seeds;
  return {
    seeds: seed === undefined ? seeds : [Number(seed)],
    steps: steps === undefined ? (isLong ? longSteps : short.steps) : Number(steps),
    isLong,
  };
}
