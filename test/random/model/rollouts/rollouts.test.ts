import { describe, expect, jest, test } from '@jest/globals';
import { byExtent } from '../../../support/jest/extent.ts';
import { chooseOneIn } from '../../../support/random/runs.ts';
import { expectComplaint, expectNoComplaint } from '../engine/walks.ts';
import { mutants } from './mutants.ts';
import { walk } from './walk.ts';

// Minutes on a busy machine.
jest.setTimeout(3_600_000);

const [walks, steps] = byExtent({ gate: [2, 60], full: [3, 120], long: [10, 300] });

const mutantSteps = 120;

test('rollouts at random: controllers, balancers, nodes and the API fail while pods come and go after each quiet every kernel does what the objects say, and nothing is broken meanwhile', async () => {
  const sums = await expectNoComplaint(walks, (seed) => walk({ seed, steps }));
  expect(sums.get('quiets')).toBe((walks * steps) / 30);
  expect(sums.get('connections')).toBeGreaterThan(walks * steps);
  expect(sums.get('gates opened: LBHealthy')).toBeGreaterThan(walks);
  expect(sums.get('drains timed')).toBeGreaterThan(0);
});

describe('a broken version is caught', () => {
  test.each(chooseOneIn(4, Object.entries(mutants)))('%s', async (_, { apply, complaint, ...broken }) => {
    const mend = apply?.() ?? (() => undefined);
    try {
      await expectComplaint(complaint, (seed) => walk({ seed, steps: mutantSteps, ...broken }));
    } finally {
      mend();
    }
  });
});
