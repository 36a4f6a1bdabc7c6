import { faults, type Fault } from './faults.ts';
import type { NodeLab } from '../../lab/nodes/node-lab.ts';
import type { NodeHost } from '../../lab/nodes/hosts.ts';
import type { Target } from '../../../test/support/network/seat-tasks.ts';
import { waitForAddress, webPort } from '../../lab/services/web.ts';

/** The words for them. */
export const setUpNames = ['vipnat-power', 'kube-proxy-power', 'vipnat-api', 'kube-proxy-api'] as const;

/** One of them. */
export type SetUpName = (typeof setUpNames)[number];

/** What is in front of the pods, and what happens to a node of theirs. */
export interface SetUp {
  readonly title: string;
  readonly fault: keyof typeof faults;
  /** Where clients connect to, as `holder` has the Service's address. */
  locate(lab: NodeLab, holder: NodeHost): Promise<Target>;
}

/** The Service, and its Deployment. */
export const webName = 'pod-node';

/** Of the same Service: kube-proxy alone serves it. */
export const nodePort = 30_080;

const vipnat: Omit<SetUp, 'fault'> = {
  title: 'vipnat',
  locate: async (lab) => ({ host: await waitForAddress(lab, webName), port: webPort }),
};

const kubeProxy: Omit<SetUp, 'fault'> = {
  title: 'kube-proxy alone, by a node port',
  locate: (_, { addresses }) => Promise.resolve({ host: addresses.ipv4, port: nodePort }),
};

/** By their words. */
export const setUps: Readonly<Record<SetUpName, SetUp>> = {
  'vipnat-power': { ...vipnat, fault: 'power' },
  'kube-proxy-power': { ...kubeProxy, fault: 'power' },
  'vipnat-api': { ...vipnat, fault: 'api' },
  'kube-proxy-api': { ...kubeProxy, fault: 'api' },
};

/** What happens in a set-up. */
export function findFault({ fault }: SetUp): Fault {
  return faults[fault];
}
