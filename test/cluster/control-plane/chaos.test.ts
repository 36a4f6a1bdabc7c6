import { describe, jest, test } from '@jest/globals';
import { chooseWalks } from '../../support/chaos/engine/choice.ts';
import { drawWalk } from '../../support/chaos/engine/draw-walk.ts';
import { proveWalk } from '../../support/chaos/engine/prove-walk.ts';
import { foundWalks, slowWalks } from '../../support/chaos/lab/found.ts';
import type { WorldKind } from '../../support/chaos/engine/world.ts';
import { labFaults } from '../../support/chaos/lab/faults.ts';
import { LabWorld } from '../../support/chaos/lab/lab-world.ts';
import { raiseTestLab } from '../../support/lab/test-lab.ts';

/** How much slower than promised a machine may be that runs a control plane beside all else. */
const patience = Number(process.env['CHAOS_PATIENCE'] ?? (process.env['CI'] === 'true' ? 3 : 2));

/** Worlds of real components: each is a lab of its own. */
const labWorlds: WorldKind = {
  name: 'chaos on the lab',
  faults: labFaults,
  async open() {
    const lab = await raiseTestLab({ proxyMode: 'iptables', iptables: 'nft' });
    try {
      return await LabWorld.open(lab, patience);
    } catch (error) {
      await lab.end();
      throw error;
    }
  },
};

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
