import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Lab } from '../../../lab/control-plane/lab.ts';
import { clusterIps } from '../../support/network/layout.ts';
import type { KubernetesObject } from '../../support/manifest/printing.ts';

const mountPath = '/var/run/secrets/kubernetes.io/serviceaccount';

const kindToCollection: Readonly<Record<string, { readonly group: string; readonly plural: string }>> = {
  ServiceAccount: { group: '/api/v1', plural: 'serviceaccounts' },
  Role: { group: '/apis/rbac.authorization.k8s.io/v1', plural: 'roles' },
  RoleBinding: { group: '/apis/rbac.authorization.k8s.io/v1', plural: 'rolebindings' },
};

/**
 * Creates a manifest's service account and what it may do, and answers flags of podman's that give a container what a kubelet
 * gives to a pod of that account.
 */
export async function grantCredentials(lab: Lab, objects: readonly KubernetesObject[]): Promise<string[]> {
  for (const object of objects) {
    const collection = kindToCollection[object.kind];
    if (collection === undefined) continue;
    const { group, plural } = collection;
    await lab.api.create(`${group}/namespaces/${object.metadata.namespace}/${plural}`, { ...object });
  }
  const account = objects.find(({ kind }) => kind === 'ServiceAccount');
  if (account === undefined) throw new Error('the manifest has no service account');
  const folder = join(lab.folder, 'service-account');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'token'), await requestToken(lab, account));
  writeFileSync(join(folder, 'namespace'), account.metadata.namespace);
  copyFileSync(lab.certificates.authority, join(folder, 'ca.crt'));
  return [
    `--volume=${folder}:${mountPath}:ro`,
    `--env=KUBERNETES_SERVICE_HOST=${clusterIps[lab.options.family]}`,
    '--env=KUBERNETES_SERVICE_PORT=443',
  ];
}

async function requestToken(lab: Lab, { metadata }: KubernetesObject): Promise<string> {
  const answer = await lab.api.create(
    `/api/v1/namespaces/${metadata.namespace}/serviceaccounts/${metadata.name}/token`,
    {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      metadata: { name: metadata.name },
      spec: { expirationSeconds: 3600 },
    },
  );
  return (answer as { readonly status: { readonly token: string } }).status.token;
}
