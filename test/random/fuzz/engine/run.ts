import { test } from '@jest/globals';
import { Random } from '../../../support/random/random.ts';
import { isLong } from '../../../support/jest/extent.ts';
import { performance } from 'node:perf_hooks';
import { timeProcessor } from '../../../support/host/processor-time.ts';
import { inspect } from 'node:util';
import { VipnatError } from '../../../../lib/errors.ts';
import { insistOnError } from './properties.ts';

/** Which part of a target's cases the default run takes: `scripts/test --long` takes all, and then as many others nine times. */
const shortShare = 0.1;
const longFactor = 9;

/** In processor time: a case of a few kilobytes takes under a millisecond, and one that grows too fast takes minutes. */
const slowMs = 10_000;

/** What is fed with inputs, and what must be so for each. */
export interface Target<T> {
  readonly name: string;
  /** How many inputs there are with `--long`; a tenth of them without. */
  readonly cases: number;
  readonly make: (random: Random) => T;
  /** Throws when a property does not hold. */
  readonly check: (input: T) => void | Promise<void>;
}

type Seeds = Readonly<Record<'first' | 'count', number>>;

/** The seeds of a target's cases. `FUZZ_SEED` replays the case that a failure has printed. */
function chooseSeeds(cases: number): readonly Seeds[] {
  const { FUZZ_SEED: seed = '', FUZZ_SHARE: share = '' } = process.env;
  if (seed !== '') return [{ first: Number(seed), count: 1 }];
  // For who writes a target: another part of the cases.
  if (share !== '' || !isLong)
    return [{ first: 1, count: Math.ceil(cases * (share === '' ? shortShare : Number(share))) }];
  const others = Math.floor(performance.timeOrigin) >>> 0;
  return [
    { first: 1, count: cases },
    { first: others, count: cases * longFactor },
  ];
}

/** Hours with `--long`. */
const limitMs = 3_600_000;

/** A test that feeds a target. */
export function testTarget<T>(title: string, target: Target<T>): void {
  test(title, () => fuzz(target), limitMs);
}

/**
 * Feeds a target as often as it says. A failure names the target, the seed and the input.
 * @throws Error
 */
export async function fuzz<T>(target: Target<T>): Promise<void> {
  for (const { first, count } of chooseSeeds(target.cases)) {
    const begin = performance.now();
    for (let seed = first; seed < first + count; seed += 1) await feed(target, seed);
    const seconds = ((performance.now() - begin) / 1000).toFixed(1);
    process.stderr.write(`fuzz ${target.name}: ${count} cases from seed ${first} in ${seconds} s\n`);
  }
}

async function feed<T>({ name, make, check }: Target<T>, seed: number): Promise<void> {
  const input = make(new Random(seed));
  const took = await timeProcessor(() => check(input)).catch((error: unknown) => {
    throw describeFailure(`${name}, FUZZ_SEED=${seed}`, input, error);
  });
  if (took > slowMs)
    throw describeFailure(`${name}, FUZZ_SEED=${seed}`, input, new Error(`it took ${Math.round(took)} ms`));
}

function describeFailure(where: string, input: unknown, cause: unknown): Error {
  const text = inspect(input, { depth: 8, maxStringLength: 4000, maxArrayLength: 200 });
  const words = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
  return new Error(`${where}: ${words}\n${text}`);
}

/** What the function gives, or the coded error that it throws, which is checked; any other error is thrown on. */
export function attempt<T>(read: () => T): T | VipnatError {
  try {
    return read();
  } catch (error) {
    return toCoded(error);
  }
}

/** The same of what is promised. */
export async function attemptLater<T>(read: () => Promise<T>): Promise<T | VipnatError> {
  try {
    return await read();
  } catch (error) {
    return toCoded(error);
  }
}

function toCoded(error: unknown): VipnatError {
  if (!(error instanceof VipnatError)) throw error;
  insistOnError(error);
  return error;
}
