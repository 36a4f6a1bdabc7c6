import type { NodeLab } from '../nodes/node-lab.ts';
import { waitUntil } from '../nodes/ready.ts';
import { clusterDnsAddress } from '../nodes/disk.ts';
import { locateSpecComponents } from '../build/build.ts';
import { pauseImage } from '../nodes/images.ts';
import { componentFolder } from '../settings/folders.ts';

const name = 'coredns';
const namespace = 'kube-system';
const labels = { 'k8s-app': 'kube-dns' };
const configurationFolder = '/etc/coredns';

/** It knows the cluster's names, and asks nobody for others. */
const corefile = `.:53 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa
}
`;

/** Gives a cluster the DNS that its kubelets name to pods: CoreDNS in one pod, as kubeadm has it in two. Ready when this returns. */
export async function addClusterDns(lab: NodeLab): Promise<void> {
  for (const object of renderObjects(lab)) await lab.apply(object);
  await waitUntil('CoreDNS is ready', async () => {
    const path = 'jsonpath={.status.readyReplicas}';
    const ready = await lab.ask(['get', 'deployment', name, '--namespace', namespace, '--output', path]);
    return ready === '1' ? null : `it has ${ready === '' ? 'no' : ready} ready pods`;
  });
}

function renderObjects({ options }: NodeLab): object[] {
  const metadata = { name, namespace };
  const role = { name: 'vipnat-lab:coredns' };
  const rights = [
    { apiGroups: [''], resources: ['services', 'pods', 'namespaces'], verbs: ['list', 'watch'] },
    { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: ['list', 'watch'] },
  ];
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: role, rules: rights },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: role,
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role.name },
      subjects: [{ kind: 'ServiceAccount', name, namespace }],
    },
    { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { Corefile: corefile } },
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'kube-dns', namespace },
      spec: {
        clusterIP: clusterDnsAddress(options.family),
        selector: labels,
        ports: ['UDP', 'TCP'].map((protocol) => ({
          name: `dns-${protocol.toLowerCase()}`,
          protocol,
          port: 53,
        })),
      },
    },
    renderDeployment(options.kubernetes),
  ];
}

function renderDeployment(release: string): object {
  const command = [locateSpecComponents(release).coredns, '-conf', `${configurationFolder}/Corefile`];
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name, namespace },
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          serviceAccountName: name,
          // Not that of the cluster, which it is.
          dnsPolicy: 'Default',
          priorityClassName: 'system-cluster-critical',
          containers: [
            {
              ...{ name, image: pauseImage, imagePullPolicy: 'IfNotPresent', command },
              readinessProbe: { httpGet: { path: '/ready', port: 8181 }, periodSeconds: 1 },
              volumeMounts: [
                { name: 'programs', mountPath: componentFolder, readOnly: true },
                { name: 'configuration', mountPath: configurationFolder, readOnly: true },
              ],
            },
          ],
          volumes: [
            { name: 'programs', hostPath: { path: componentFolder, type: 'Directory' } },
            { name: 'configuration', configMap: { name } },
          ],
        },
      },
    },
  };
}
