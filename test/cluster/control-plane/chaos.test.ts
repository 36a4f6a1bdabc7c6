import { describe, jest, test } from '@jest/globals';
import { chooseWalks } from '../../support/chaos/engine/choice.ts';
import { drawWalk } from '../../support/chaos/engine/draw-walk.ts';
import { proveWalk } from '../../support/chaos/engine/prove-walk.ts';
import { foundWalks, slowWalks } from '../../support/chaos/lab/found.ts';
import { labWorlds } from '../../support/chaos/lab/lab-worlds.ts';

/** What kube-proxy needs may take a while; what vipnat promises is timed by the world itself. */
const limits = { quietMs: 90_000, judgements: 4, steadyMs: 300 };

const { seeds, steps, isLong } = chooseWalks({ seeds: [1], steps: 12 }, 200);

/** Of one walk; looking for the shortest one that fails takes as long again. */
const shrinkMs = isLong ? 20 * 60_000 : 0;
jest.setTimeout((isLong || steps > 50 ? 60 : 10) * 60_000);

describe('chaos on the lab', () => {
  test.each([...seeds])(
    `seed %i: after each burst of ${steps} faults everything is right again`,
    async (seed) => {
      const walk = drawWalk(labWorlds.faults, seed, steps);
      await proveWalk({ kind: labWorlds, walk, title: `seed ${seed}`, limits, shrinkMs });
    },
  );

  // A walk that is asked for by its seed runs alone.
  const found = process.env['CHAOS_SEED'] === undefined ? [...foundWalks, ...(isLong ? slowWalks : [])] : [];
  for (const { name, walk } of found) {
    test(`found before: ${name}`, async () => {
      await proveWalk({ kind: labWorlds, walk, title: name, limits, shrinkMs: 0 });
    });
  }
});
