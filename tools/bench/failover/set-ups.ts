import { type FaultName, faultNames, shutdownDelaySeconds } from './faults.ts';
import type { LabOptions } from '../../lab/settings/options.ts';
import type { Lab } from '../../lab/control-plane/lab.ts';
import { apiserverPort, masters } from '../../../test/support/network/layout.ts';
import { raiseLab } from '../../lab/control-plane/raise.ts';
import { haproxyPort } from '../../lab/components/haproxy.ts';
import { vipnatCommand } from '../../lab/components/agent.ts';

const ofHolder: readonly FaultName[] = ['holder', 'power', 'path'];
const forAll = faultNames.filter((name) => !['drained', 'power', 'path'].includes(name));

/** The words for them. */
export const setUpNames = [
  'vipnat',
  'vipnat-100ms',
  'vipnat-delay',
  'vipnat-adverts',
  'haproxy',
  'kube-proxy',
] as const;

/** One of them. */
export type SetUpName = (typeof setUpNames)[number];

/** A way to have the control plane behind one address. */
export interface SetUp {
  readonly title: string;
  /** Where clients find it on the VIP. */
  readonly port: number;
  /** Those that it is measured with. */
  readonly faults: readonly FaultName[];
  /** Brings up a lab that has it; it may not be ready yet. */
  raise(options: LabOptions): Promise<Lab>;
}

/** By their words. */
export const setUps: Readonly<Record<SetUpName, SetUp>> = {
  vipnat: {
    title: 'vipnat',
    port: apiserverPort,
    faults: [...forAll, 'power', 'path'],
    raise: (options) => raiseLab(options),
  },
  'vipnat-100ms': {
    title: 'vipnat, probes of 100 ms',
    port: apiserverPort,
    faults: ['blackholed'],
    raise: (options) =>
      raiseLab({
        ...options,
        agentArguments: ['--probe-interval', '100ms', '--probe-timeout', '100ms'],
      }),
  },
  'vipnat-delay': {
    title: 'vipnat, apiservers with a delay',
    port: apiserverPort,
    faults: ['drained'],
    raise: (options) => raiseLab({ ...options, shutdownDelaySeconds }),
  },
  'vipnat-adverts': {
    title: 'vipnat, adverts of 300 ms',
    port: apiserverPort,
    faults: ofHolder,
    raise: (options) => raiseLab({ ...options, keepalivedArguments: ['--advert', '300ms'] }),
  },
  haproxy: {
    title: 'keepalived + HAProxy',
    port: haproxyPort,
    faults: forAll,
    raise: async (options) => {
      const lab = await raiseLab(options, { hasAgents: false });
      for (const { name } of masters) await lab.start(name, 'haproxy');
      return lab;
    },
  },
  'kube-proxy': {
    title: 'kube-proxy alone',
    port: apiserverPort,
    faults: forAll,
    raise: async (options) => {
      const lab = await raiseLab(options, { hasAgents: false });
      for (const { name } of masters) await writeOnce(lab, name);
      return lab;
    },
  },
};

/** The VIP through kube-proxy's own chain, which nobody looks after. */
async function writeOnce(lab: Lab, master: string): Promise<void> {
  const command = vipnatCommand(
    ...['run', '--once', '--mode', 'service-chain', '--vip', lab.vip],
    ...['--ca-file', lab.certificates.authority],
  );
  const { exitCode, stderr } = await lab.machine(master).run(command);
  if (exitCode !== 0) throw new Error(`vipnat run --once on ${master}: ${stderr}`);
}
