import type { Lab } from '../../lab/control-plane/lab.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { cutPower, restorePower, breakPath, mendPath } from '../../lab/control-plane/faults.ts';
import { masters } from '../../../test/support/network/layout.ts';

/** The words for them. */
export const faultNames = [
  'killed',
  'blackholed',
  'frozen',
  'stopped',
  'drained',
  'holder',
  'power',
  'path',
] as const;

/** One of them. */
export type FaultName = (typeof faultNames)[number];

/** How long an apiserver goes on to serve in a lab for `drained`. */
export const shutdownDelaySeconds = 5;

/** Something that is done to one master, and undone. */
export interface Fault {
  readonly meaning: string;
  /** Whether it is done to the VIP's holder; otherwise to a master that has it not. */
  readonly isAtHolder: boolean;
  /** Whose long-lived watches it breaks. */
  readonly stuck: 'its own' | 'all' | 'none';
  break(lab: Lab, master: string): Promise<void>;
  /** Undoes it; what follows from that takes its time. */
  mend(lab: Lab, master: string): Promise<void>;
}

/** By their words. */
export const faults: Readonly<Record<FaultName, Fault>> = {
  killed: {
    meaning: 'SIGKILL ends an apiserver',
    isAtHolder: false,
    stuck: 'its own',
    break: (lab, master) => lab.service(master, 'kube-apiserver').signal('KILL'),
    mend: restartApiserver,
  },
  blackholed: {
    meaning: 'another master than the VIP holder loses its network: packets to it are lost',
    isAtHolder: false,
    stuck: 'its own',
    break: (lab, master) => lab.cut(master),
    mend: (lab, master) => lab.join(master),
  },
  frozen: {
    meaning: 'SIGSTOP freezes an apiserver, whose kernel still accepts connections',
    isAtHolder: false,
    stuck: 'none',
    break: (lab, master) => lab.service(master, 'kube-apiserver').signal('STOP'),
    mend: (lab, master) => lab.service(master, 'kube-apiserver').signal('CONT'),
  },
  stopped: {
    meaning: 'SIGTERM stops an apiserver. It serves open watches for up to a minute',
    isAtHolder: false,
    stuck: 'none',
    break: (lab, master) => lab.service(master, 'kube-apiserver').signal('TERM'),
    mend: restartApiserver,
  },
  drained: {
    meaning: `the same, with a shutdown delay of ${shutdownDelaySeconds} s`,
    isAtHolder: false,
    stuck: 'none',
    break: async (lab, master) => {
      await lab.service(master, 'kube-apiserver').signal('TERM');
      await sleep(shutdownDelaySeconds * 1000);
    },
    mend: restartApiserver,
  },
  holder: {
    meaning: 'the VIP holder loses its network',
    isAtHolder: true,
    stuck: 'all',
    break: (lab, master) => lab.cut(master),
    mend: (lab, master) => lab.join(master),
  },
  power: {
    meaning: 'the VIP holder loses its power',
    isAtHolder: true,
    stuck: 'all',
    break: cutPower,
    mend: restorePower,
  },
  path: {
    meaning: 'SIGKILL ends the apiserver of the VIP holder, and a firewall drops its packets to others',
    isAtHolder: true,
    stuck: 'all',
    break: breakPath,
    mend: mendPath,
  },
};

/** The master that a fault is done to, as the VIP is held now. */
export async function chooseMaster(lab: Lab, { isAtHolder }: Fault): Promise<string> {
  const [holder = ''] = await lab.listHolders();
  if (isAtHolder) return holder;
  return masters.map(({ name }) => name).findLast((name) => name !== holder) ?? '';
}

async function restartApiserver(lab: Lab, master: string): Promise<void> {
  await lab.service(master, 'kube-apiserver').stop('KILL');
  await lab.start(master, 'kube-apiserver');
}
