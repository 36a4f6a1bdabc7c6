import { fc } from '../../support/random/fc.ts';
import { chooseRuns } from '../../support/random/runs.ts';

/** How often a check runs, a tenth of it in the gate; and values that it runs with first. */
interface Extent<T> {
  readonly runs?: number;
  readonly examples?: readonly T[];
}

/**
 * Checks any values of these: fast-check's number of times unless said otherwise.
 * @throws Error which names the simplest values for which the check throws, and what runs it with them again.
 */
export async function forAll<T extends unknown[]>(
  { runs, examples = [] }: Extent<NoInfer<T>>,
  values: { [Place in keyof T]: fc.Arbitrary<T[Place]> },
  check: (...values: T) => unknown,
): Promise<void> {
  const property = fc.asyncProperty(fc.tuple<T>(...values), async (all) => {
    await check(...all);
  });
  const numRuns = runs === undefined ? {} : { numRuns: chooseRuns(runs) };
  await fc.assert(property, { ...numRuns, examples: examples.map((one): [T] => [one]) });
}
