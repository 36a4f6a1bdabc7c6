import { raiseTestLab } from '../../lab/test-lab.ts';
import { type WorldKind } from '../engine/world.ts';
import { labFaults } from './faults.ts';
import { LabWorld } from './lab-world.ts';

/** How much slower than promised a machine may be that runs a control plane beside all else. */
const patience = Number(process.env['CHAOS_PATIENCE'] ?? (process.env['CI'] === 'true' ? 3 : 2));

/** Worlds of real components: each is a lab of its own. */
export const labWorlds: WorldKind = {
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
