import { statSync } from 'node:fs';
import { type Config } from '../../config/config.ts';
import { quoteText } from '../../config/setting.ts';
import { type ApiRoute } from '../../lib/kubernetes/route.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { findRoute } from '../../lib/kubernetes/find-route.ts';

/**
 * How a command that is about Services gets at the Kubernetes API. It may go by a virtual IP: the command is for any host. Without
 * `--kubeconfig` it uses the files of KUBECONFIG, as kubectl does.
 * @throws VipnatError API_CREDENTIALS_INVALID without credentials, or if KUBECONFIG names no file that exists
 */
export function findClusterRoute(
  config: Config,
  command: string,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): ApiRoute {
  const kubeconfig = config.kubeconfig ?? findKubeconfig(environment['KUBECONFIG'] ?? '');
  const route = findRoute({ ...config, kubeconfig, vips: [] });
  if (route !== null) return route;
  const example = `Example: vipnat ${command} --kubeconfig /etc/kubernetes/admin.conf`;
  throw new VipnatError(
    'API_CREDENTIALS_INVALID',
    `${command} reads the Kubernetes API, and has no credentials for it. ${example}`,
  );
}

/** The first file of the list that exists; null where the list is empty. Unlike kubectl's, the files are not merged. */
function findKubeconfig(list: string): string | null {
  const paths = list.split(':').filter((path) => path !== '');
  const found = paths.find((path) => statSync(path, { throwIfNoEntry: false })?.isFile() === true);
  if (paths.length === 0 || found !== undefined) return found ?? null;
  throw new VipnatError(
    'API_CREDENTIALS_INVALID',
    `KUBECONFIG is ${quoteText(list)}, and names no file that exists. Name one there or with --kubeconfig, or unset KUBECONFIG`,
  );
}
