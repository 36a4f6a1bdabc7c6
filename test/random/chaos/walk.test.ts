import { describe, test } from '@jest/globals';
import { byExtent } from '../../support/jest/extent.ts';
import { chooseWalks } from '../../support/chaos/engine/choice.ts';
import { drawWalk } from '../../support/chaos/engine/draw-walk.ts';
import { proveWalk } from '../../support/chaos/engine/prove-walk.ts';
import { vipnatCommand } from '../../support/host/vipnat.ts';
import { standIn, standInLimits as limits } from '../../support/chaos/stand-in/world.ts';

const short = byExtent({ gate: [1], full: [1, 2, 3], long: [] });
const { seeds, steps, isLong } = chooseWalks({ seeds: short, steps: 30 }, 1000);
const kind = standIn(vipnatCommand([]));

/** Room for the walk itself on a slow machine, and for looking for the shortest one that fails. */
const stepMs = 6000;
const shrinkMs = isLong ? 900_000 : 120_000;

describe('after every burst of faults vipnat is right again', () => {
  test.each(seeds)(
    `seed %i, ${steps} steps`,
    (seed) =>
      proveWalk({ kind, walk: drawWalk(kind.faults, seed, steps), title: `seed ${seed}`, limits, shrinkMs }),
    120_000 + steps * stepMs + 2 * shrinkMs,
  );
});
