import type { LabOptions } from '../settings/options.ts';
import type { Certificates } from '../certificates/certificates.ts';
import { type ProxySetting, kubeProxyCommand } from './kube-proxy.ts';
import type { Command } from './command.ts';
import { locateComponents } from '../build/build.ts';
import { etcdCommand } from './etcd.ts';
import { apiserverCommand } from './apiserver.ts';
import { keepalivedCommand } from './keepalived.ts';
import { agentCommand } from './agent.ts';
import { haproxyCommand } from './haproxy.ts';
import { masters } from '../../../test/support/network/layout.ts';

/** What runs on a master, in the order of its start; on a worker only kube-proxy does, if any does. */
export const components = ['etcd', 'kube-apiserver', 'keepalived', 'kube-proxy', 'vipnat'] as const;

/** One of them, or HAProxy, which a lab without agents may have in their place. */
export type Component = (typeof components)[number] | 'haproxy';

/** What the components' configurations follow from. */
export interface ControlPlane {
  readonly options: LabOptions;
  readonly folder: string;
  readonly certificates: Certificates;
}

/** What can be otherwise each time that a component is started. */
export interface Setting extends ProxySetting {
  /** What `vipnat run` is given beside the VIP and the authority. */
  readonly agentArguments: readonly string[];
}

/** How a component is started on a host. */
export function componentCommand(
  { options, folder, certificates }: ControlPlane,
  host: string,
  component: Component,
  setting: Setting,
): Command {
  const programs = locateComponents(options.kubernetes);
  const { family } = options;
  switch (component) {
    case 'etcd':
      return etcdCommand(programs.etcd, findMaster(host), options);
    case 'kube-apiserver':
      return apiserverCommand(programs['kube-apiserver'], findMaster(host), options, certificates);
    case 'keepalived':
      return keepalivedCommand(host, folder, family, options.keepalivedArguments);
    case 'kube-proxy':
      return kubeProxyCommand(programs['kube-proxy'], host, folder, setting);
    case 'vipnat':
      return agentCommand(family, certificates, setting.agentArguments);
    case 'haproxy':
      return haproxyCommand(host, folder, family);
  }
}

function findMaster(name: string): (typeof masters)[number] {
  const master = masters.find((candidate) => candidate.name === name);
  if (master === undefined) throw new Error(`${name} is no master`);
  return master;
}
