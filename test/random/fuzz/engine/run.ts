import { performance } from 'node:perf_hooks';
import { inspect } from 'node:util';
import { VipnatError } from '../../../../lib/text/errors.ts';
import { Random } from './random.ts';
import { type TargetName, targets } from './targets.ts';

/** How often more `scripts/test --long` does it all. */
const longFactor = 10;

/** A case of a few kilobytes takes under a millisecond; a machine that does other things may stop for a while. */
const slowMs = 1000;

/** What is fed with inputs, and what must be so for each. */
export interface Target<T> {
  readonly name: TargetName;
  readonly make: (random: Random) => T;
  /** Throws when a property does not hold. */
  readonly check: (input: T) => void | Promise<void>;
}

/** The seed of the first case; one more for each further one. `FUZZ_SEED` replays the case that a failure has printed. */
function chooseSeed(): number {
  if (isReplay()) return Number(process.env['FUZZ_SEED']);
  return isLong() ? Math.floor(performance.timeOrigin) >>> 0 : 1;
}

function isReplay(): boolean {
  return (process.env['FUZZ_SEED'] ?? '') !== '';
}

function isLong(): boolean {
  return process.env['TEST_LONG'] === 'true';
}

/** One where a case is replayed. `FUZZ_SHARE` is for who writes a target: a smaller part of the cases. */
function countCases(name: TargetName): number {
  const share = Number(process.env['FUZZ_SHARE'] ?? (isLong() ? longFactor : 1));
  return isReplay() ? 1 : Math.ceil(targets[name].cases * share);
}

/**
 * Feeds a target as often as its row says. A failure names the target, the seed and the input.
 * @throws Error
 */
export async function fuzz<T>({ name, make, check }: Target<T>): Promise<void> {
  const first = chooseSeed();
  const count = countCases(name);
  const begin = performance.now();
  for (let seed = first; seed < first + count; seed += 1) {
    const input = make(new Random(seed));
    const before = performance.now();
    try {
      const outcome = check(input);
      if (outcome !== undefined) await outcome;
    } catch (error) {
      throw describeFailure(`${name}, FUZZ_SEED=${seed}`, input, error);
    }
    const took = performance.now() - before;
    // Once more, in processor time: a machine that does other things is not the case's fault.
    if (took > slowMs && (await timeProcessor(() => check(input))) > slowMs) {
      throw describeFailure(`${name}, FUZZ_SEED=${seed}`, input, new Error(`it took ${Math.round(took)} ms`));
    }
  }
  const seconds = ((performance.now() - begin) / 1000).toFixed(1);
  process.stderr.write(`fuzz ${name}: ${count} cases from seed ${first} in ${seconds} s\n`);
}

/** How long the processor has to do with something, in milliseconds. */
async function timeProcessor(act: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await act();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

function describeFailure(where: string, input: unknown, cause: unknown): Error {
  const text = inspect(input, { depth: 8, maxStringLength: 4000, maxArrayLength: 200 });
  const words = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
  return new Error(`${where}: ${words}\n${text}`);
}

/** What the function gives, or the coded error that it throws; any other error is thrown on. */
export function attempt<T>(read: () => T): T | VipnatError {
  try {
    return read();
  } catch (error) {
    if (error instanceof VipnatError) return error;
    throw error;
  }
}

/** The same of what is promised. */
export async function attemptLater<T>(read: () => Promise<T>): Promise<T | VipnatError> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof VipnatError) return error;
    throw error;
  }
}
