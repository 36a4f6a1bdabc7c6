import type { LabOptions } from '../settings/options.ts';
import { locateComponents } from '../build/build.ts';
import { nodes } from './hosts.ts';
import { kubeProxyCommand } from '../components/kube-proxy.ts';
import { componentFolder } from '../settings/folders.ts';
import { join } from 'node:path';

const lock = '/run/xtables.lock';

/**
 * kube-proxy on every node, as kubeadm has it: a DaemonSet that asks at the VIP. Each has a configuration of its own in the
 * lab's folder, and iptables from vipnat's image.
 */
export function renderKubeProxy(labFolder: string, options: LabOptions, image: string): object {
  const { proxyMode: mode, iptables, family, kubernetes } = options;
  const program = locateComponents(kubernetes)['kube-proxy'];
  for (const { name } of nodes) kubeProxyCommand(program, name, labFolder, { mode, iptables, family });
  const labels = { 'k8s-app': 'kube-proxy' };
  const volumes = [componentFolder, labFolder].map((path, index) => ({
    name: `folder-${index}`,
    hostPath: { path },
  }));
  const tools = join(labFolder, `${iptables}-tools`);
  const command = [program, `--config=${join(labFolder, '$(NODE_NAME)/kube-proxy.json')}`];
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name: 'kube-proxy', namespace: 'kube-system', labels },
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          ...{ hostNetwork: true, automountServiceAccountToken: false },
          priorityClassName: 'system-node-critical',
          tolerations: [{ operator: 'Exists' }],
          containers: [
            {
              ...{ name: 'kube-proxy', image, imagePullPolicy: 'IfNotPresent', command },
              env: renderEnvironment(tools),
              readinessProbe: { httpGet: { path: '/healthz', port: 10256 }, periodSeconds: 1 },
              securityContext: { privileged: true, runAsUser: 0 },
              volumeMounts: [
                ...volumes.map(({ name, hostPath }) => ({ name, mountPath: hostPath.path, readOnly: true })),
                { name: 'lock', mountPath: lock },
              ],
            },
          ],
          volumes: [...volumes, { name: 'lock', hostPath: { path: lock, type: 'FileOrCreate' } }],
        },
      },
    },
  };
}

/** It calls whatever `iptables` is first in PATH. */
function renderEnvironment(tools: string): object[] {
  return [
    { name: 'NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } },
    { name: 'PATH', value: `${tools}:/usr/sbin:/usr/bin:/sbin:/bin` },
  ];
}
