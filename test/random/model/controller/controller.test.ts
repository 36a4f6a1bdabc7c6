import { describe, expect, jest, test } from '@jest/globals';
import { nextStep } from '../../../../controller/kinds/kinds.ts';
import { byExtent } from '../../../support/jest/extent.ts';
import { chooseOneIn } from '../../../support/random/runs.ts';
import { printFigure } from '../engine/print-figure.ts';
import { mutants } from './mutants.ts';
import { type Leaders } from './cluster.ts';
import { type Walk, walk } from './walk.ts';

// Minutes on a busy machine.
jest.setTimeout(3_600_000);

const walks = byExtent({ gate: 25, full: 100, long: 1000 });
const actions = 600;

/** Each broken controller is caught by one in thirty at least: see habits.ts. */
const mostWalks = 200;

function describeWalk({ seed, complaint, history }: Pick<Walk, 'seed' | 'complaint' | 'history'>): string {
  return [`seed ${seed}: ${complaint}`, ...history.map((line) => line.slice(0, 400))].join('\n');
}

describe('controllers of Services walk at random: steps are lost, answers too, nodes and pools come and go', () => {
  test.each<Leaders>(['one', 'two'])('%s at a time', (leaders) => {
    const sums = new Map<string, number>();
    for (let seed = 1; seed <= walks; seed += 1) {
      const { complaint, history, counts } = walk({ decide: nextStep, seed, leaders, actions });
      if (complaint !== null) expect(describeWalk({ seed, complaint, history })).toBe('no complaint');
      for (const [what, count] of counts) sums.set(what, (sums.get(what) ?? 0) + count);
    }
    printFigure(JSON.stringify([...sums]));
    for (const what of ['published', 'programmed', 'deleted'])
      expect(sums.get(what)).toBeGreaterThan(walks / 2);
  });
});

describe('a broken controller is caught', () => {
  test.each(chooseOneIn(5, Object.entries(mutants)))(
    '%s',
    (_, { decide, complaint: expected, leaders = 'one' }) => {
      for (let seed = 1; seed <= mostWalks; seed += 1) {
        const { complaint } = walk({ decide, seed, leaders, actions });
        if (complaint === null) continue;
        expect(complaint).toMatch(expected);
        return;
      }
      expect(0).toBe('a complaint');
    },
  );
});
