import { readFileSync } from 'node:fs';
import { locateMetallbFile } from '../../lab/build/build.ts';
import { parseAllDocuments } from 'yaml';

/** That of MetalLB's own manifest. */
export const metallbNamespace = 'metallb-system';

/** What the speakers need of the manifest. The controller and its webhook have no part in who holds an address. */
const neededKinds = new Set([
  'Namespace',
  'CustomResourceDefinition',
  'ServiceAccount',
  'Role',
  'ClusterRole',
  'RoleBinding',
  'ClusterRoleBinding',
]);

/** An object of the manifest. */
export interface MetallbObject {
  readonly kind: string;
}

/** The objects and rights of MetalLB's speakers, by its manifest for native mode. */
export async function readMetallbObjects(): Promise<MetallbObject[]> {
  const text = readFileSync(await locateMetallbFile('config/manifests/metallb-native.yaml'), 'utf8');
  return parseAllDocuments(text)
    .map((document) => document.toJS() as MetallbObject)
    .filter(({ kind }) => neededKinds.has(kind));
}
