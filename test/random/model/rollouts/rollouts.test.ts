import { describe, expect, jest, test } from '@jest/globals';
import { byExtent } from '../../../support/jest/extent.ts';
import { chooseOneIn } from '../../../support/random/runs.ts';
import { printFigure } from '../engine/print-figure.ts';
import { mutants } from './mutants.ts';
import { type Walk, walk } from './walk.ts';

// Minutes on a busy machine.
jest.setTimeout(3_600_000);

const [walks, steps] = byExtent({ gate: [3, 60], full: [3, 120], long: [10, 300] });

/** Each broken version is caught by one walk of these at least. */
const [mostWalks, mutantSteps] = [40, 120];

function describeWalk({ seed, complaint, history }: Walk): string {
  return [`seed ${seed}: ${complaint}`, ...history].join('\n');
}

describe('rollouts at random: controllers, balancers, nodes and the API fail while pods come and go', () => {
  test('after each quiet every kernel does what the objects say, and nothing is broken meanwhile', async () => {
    const sums = new Map<string, number>();
    for (let seed = 1; seed <= walks; seed += 1) {
      const walked = await walk({ seed, steps });
      if (walked.complaint !== null) expect(describeWalk(walked)).toBe('no complaint');
      for (const [what, count] of walked.counts) sums.set(what, (sums.get(what) ?? 0) + count);
    }
    printFigure(JSON.stringify([...sums]));
    expect(sums.get('quiets')).toBe((walks * steps) / 30);
    expect(sums.get('connections')).toBeGreaterThan(walks * steps);
    expect(sums.get('gates opened: LBHealthy')).toBeGreaterThan(walks);
    expect(sums.get('drains timed')).toBeGreaterThan(0);
  });
});

describe('a broken version is caught', () => {
  test.each(chooseOneIn(4, Object.entries(mutants)))(
    '%s',
    async (_, { apply, complaint: expected, ...broken }) => {
      const mend = apply?.() ?? (() => undefined);
      try {
        for (let seed = 1; seed <= mostWalks; seed += 1) {
          const { complaint } = await walk({ seed, steps: mutantSteps, ...broken });
          if (complaint === null) continue;
          printFigure(`caught by seed ${seed}: ${complaint.slice(0, 200)}`);
          expect(complaint).toMatch(expected);
          return;
        }
      } finally {
        mend();
      }
      expect(0).toBe('a complaint');
    },
  );
});
