import { describe, expect, jest, test } from '@jest/globals';
import { nextStep } from '../../../support/fakes/service-steps.ts';
import { byExtent } from '../../../support/jest/extent.ts';
import { chooseOneIn } from '../../../support/random/runs.ts';
import { expectComplaint, expectNoComplaint } from '../engine/walks.ts';
import { type Leaders } from './cluster.ts';
import { gateMutants } from './gate-mutants.ts';
import { mutants } from './mutants.ts';
import { walk } from './walk.ts';

// Minutes on a busy machine.
jest.setTimeout(3_600_000);

const actions = 600;

/** Controllers of Services, and of the gates of pods. */
const subjects = [
  {
    what: 'of Services: steps are lost, answers too, nodes and pools come and go',
    hasPods: false,
    walks: byExtent({ gate: 10, full: 100, long: 1000 }),
    happens: ['published', 'programmed', 'deleted'],
    mutants,
  },
  {
    what: 'of gates: pods come, fail and go, steps and answers are lost',
    hasPods: true,
    walks: byExtent({ gate: 5, full: 50, long: 500 }),
    happens: ['early slices', 'gates opened: LBHealthy', 'gates opened: NoService'],
    mutants: gateMutants,
  },
] as const;

describe.each(subjects)(
  'controllers walk at random, $what',
  ({ hasPods, walks, happens, mutants: broken }) => {
    test.each<Leaders>(['one', 'two'])('%s at a time', async (leaders) => {
      const sums = await expectNoComplaint(walks, (seed) =>
        walk({ decide: nextStep, seed, leaders, actions, hasPods }),
      );
      for (const what of happens) expect(sums.get(what)).toBeGreaterThan(walks / 5);
    });

    test.each(chooseOneIn(5, Object.entries(broken)))(
      'one that is broken is caught: %s',
      async (_, { decide, complaint, leaders = 'one' }) => {
        await expectComplaint(complaint, (seed) => walk({ decide, seed, leaders, actions, hasPods }));
      },
    );
  },
);
