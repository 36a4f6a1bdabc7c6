import type { Release } from '../settings/release.ts';
import { printManifest } from './print-manifest.ts';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments, type Document, isMap, isSeq, isScalar } from 'yaml';

const file = 'install.yaml';

/** Any address: it is taken out again. */
const someVip = '198.51.100.237';

/**
 * Writes install.yaml: what `vipnat manifest daemonset` prints, as a file that nobody has to change. Its options are in a
 * ConfigMap, which a cluster keeps from one version to the next; until it is there, the kubelet says that it misses it.
 */
export async function writeInstallYaml(release: Release): Promise<readonly string[]> {
  const text = toInstallYaml(await printManifest(release, ['daemonset', '--vip', someVip]), release);
  writeFileSync(join(release.output, file), text);
  return [file];
}

/** The printed DaemonSet, with its options from the ConfigMap `vipnat` instead of arguments. */
export function toInstallYaml(printed: string, { version }: Pick<Release, 'version'>): string {
  const documents = parseAllDocuments(printed, { compat: 'yaml-1.1' }) as Document[];
  for (const document of documents.filter((each) => each.get('kind') === 'DaemonSet'))
    takeOptionsFromMap(document);
  const [first] = documents;
  if (first !== undefined) first.commentBefore = head(version).replaceAll(/^/gm, ' ');
  return documents
    .map((each) => each.toString({ lineWidth: 0, singleQuote: true }).replace(/^---\n/, ''))
    .join('---\n');
}

const head = (
  version: string,
) => `vipnat ${version}, for kubectl apply -f. The pods start once there is a ConfigMap with your virtual IP:
  kubectl -n kube-system create configmap vipnat --from-literal=VIPNAT_VIP=10.0.0.50
Every option that has a variable can be in it (docs/reference.md), but those that name files or folders, and VIPNAT_LISTEN:
these change the pod, as vipnat manifest daemonset prints it. After a change: kubectl -n kube-system rollout restart daemonset/vipnat`;

function takeOptionsFromMap(document: Document): void {
  const container = document.getIn(['spec', 'template', 'spec', 'containers', 0]);
  const args = isMap(container) ? container.get('args') : null;
  if (!isMap(container) || !isSeq(args)) throw new TypeError('the DaemonSet has no container with arguments');
  args.items = args.items.filter((item) => !(isScalar(item) && String(item.value).startsWith('--vip=')));
  const index = container.items.findIndex(({ key }) => isScalar(key) && key.value === 'args');
  const pair = document.createPair('envFrom', [{ configMapRef: { name: 'vipnat' } }]);
  container.items.splice(index + 1, 0, pair);
}
