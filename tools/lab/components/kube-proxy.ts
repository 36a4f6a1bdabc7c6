import { type LabOptions, listFamilies } from '../settings/options.ts';
import type { Family } from '../../../lib/net.ts';
import type { Certificates } from '../certificates/certificates.ts';
import { writeKubeconfig } from '../certificates/kubeconfig.ts';
import { join } from 'node:path';
import { toUrlHost, type Command } from './command.ts';
import { vips, apiserverPort, podNetworks } from '../../../test/support/network/layout.ts';
import { writeFileSync } from 'node:fs';

/** How kube-proxy programs one node, if it does. */
export interface ProxySetting {
  readonly mode: LabOptions['proxyMode'];
  readonly iptables: LabOptions['iptables'];
  readonly family: Family;
  /** See `LabOptions.isDualStack`. */
  readonly isDualStack?: boolean;
  /** Whether a node in mode ipvs answers ARP only for addresses of the interface that is asked. Not when left out, as is kube-proxy's default. */
  readonly isStrictArp?: boolean;
  /** A folder of tools that kube-proxy takes before those of this machine. */
  readonly tools?: string;
}

/** kube-proxy's, as kubeadm has it: its server is the control plane's endpoint, the VIP. */
export function writeProxyKubeconfig(folder: string, family: Family, certificates: Certificates): string {
  return writeKubeconfig(join(folder, 'kube-proxy.kubeconfig'), {
    server: `https://${toUrlHost(vips[family])}:${apiserverPort}`,
    authority: certificates.authority,
    user: 'kube-proxy',
    pair: certificates.kubeProxy,
  });
}

/**
 * A node's kube-proxy. Its configuration is written into the folder, under the node's name.
 * @throws Error when the setting says that there is none.
 */
export function kubeProxyCommand(
  program: string,
  node: string,
  folder: string,
  setting: ProxySetting,
): Command {
  const { mode, iptables, family, isStrictArp = false, tools } = setting;
  if (mode === 'none') throw new Error(`${node} has no kube-proxy: the lab is one without (proxyMode none)`);
  const configuration = join(folder, node, 'kube-proxy.json');
  writeJson(configuration, {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode,
    bindAddress: family === 'ipv6' ? '::' : '0.0.0.0',
    clientConnection: { kubeconfig: join(folder, 'kube-proxy.kubeconfig') },
    clusterCIDR: listFamilies(setting)
      .map((one) => podNetworks[one])
      .join(),
    hostnameOverride: node,
    ipvs: { strictARP: isStrictArp },
    // The size of the connection table belongs to the machine, not to a namespace.
    conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
  });
  const folders = [join(folder, `${iptables}-tools`), tools, process.env['PATH']];
  return {
    command: [program, `--config=${configuration}`],
    // kube-proxy calls whatever `iptables` is first in PATH.
    environment: { PATH: folders.filter((one) => one !== undefined).join(':') },
  };
}

function writeJson(path: string, content: unknown): void {
  writeFileSync(path, JSON.stringify(content, null, 2));
}
