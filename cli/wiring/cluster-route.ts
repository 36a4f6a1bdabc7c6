import { type Config } from '../../config/config.ts';
import { type ApiRoute } from '../../lib/kubernetes/route.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { findRoute } from './one-shot-host.ts';

/**
 * How a command that is about Services gets at the Kubernetes API. It may go by a virtual IP: the command is for any host.
 * @throws VipnatError API_CREDENTIALS_INVALID without credentials
 */
export function findClusterRoute(config: Config, command: string): ApiRoute {
  const route = findRoute({ ...config, vips: [] });
  if (route !== null) return route;
  const example = `Example: vipnat ${command} --kubeconfig /etc/kubernetes/admin.conf`;
  throw new VipnatError(
    'API_CREDENTIALS_INVALID',
    `${command} reads the Kubernetes API, and has no credentials for it. ${example}`,
  );
}
