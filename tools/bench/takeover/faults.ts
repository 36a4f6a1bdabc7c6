import { type Ground, type SetUpName, setUps } from './set-ups.ts';
import { listRunning, clearNode, startNode } from './node.ts';
import { killGroup } from '../shared/seat-node.ts';

/** The words for them. */
export const faultNames = ['cut', 'power'] as const;

/** One of them. */
export type FaultName = (typeof faultNames)[number];

/** What happens to the node that holds all addresses. */
export interface Fault {
  readonly meaning: string;
  break(ground: Ground, node: string, setUp: SetUpName): Promise<void>;
  /** Undoes it; what follows from that takes its time. */
  mend(ground: Ground, node: string, setUp: SetUpName): Promise<void>;
}

/** By their words. */
export const faults: Readonly<Record<FaultName, Fault>> = {
  cut: {
    meaning: 'the node loses its network; all its processes continue',
    break: (ground, node) => ground.cluster.setCable(node, false),
    mend: async (ground, node, setUp) => {
      await ground.cluster.setCable(node, true);
      await setUps[setUp].returned(ground, node);
    },
  },
  power: {
    meaning: 'the node loses its power: its network, and SIGKILL ends all its processes',
    break: async (ground, node, setUp) => {
      await ground.cluster.setCable(node, false);
      await Promise.all(listRunning(ground, node, setUp).map(killGroup));
    },
    mend: async (ground, node, setUp) => {
      await clearNode(ground, node);
      await ground.cluster.setCable(node, true);
      await ground.cluster.startKubeProxy(node, 'iptables');
      await startNode(ground, node, setUp);
      await setUps[setUp].returned(ground, node);
    },
  },
};
