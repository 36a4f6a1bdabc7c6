/**
 * With which credentials the API is asked. client-node reads them, as kubectl would. A kubeconfig that gets them from
 * another program is refused: that program would run with our rights (I2).
 */
import { statSync } from 'node:fs';
import { type ClientRequest } from 'node:http';
import { type RequestOptions } from 'node:https';
// Not `import { type … }`: that would load the package.
import type { Cluster, KubeConfig, User } from '@kubernetes/client-node';
import { VipnatError } from '../text/errors.ts';

/** How to get at the API: where it is said to be, and what shows who we are. */
export interface ApiAccess {
  /** Where this is from, for people. */
  readonly origin: string;
  /** As the credentials name it, without brackets: maybe a virtual IP or ClusterIP. */
  readonly host: string;
  readonly port: number;
  /** The name or address that the server's certificate must be valid for, wherever the connection goes. */
  readonly serverName: string;
  /** Whether `host` is a ClusterIP, which only kube-proxy leads anywhere. */
  readonly isInCluster: boolean;
  readonly tls: Pick<RequestOptions, 'ca' | 'cert' | 'key' | 'rejectUnauthorized'>;
  readonly headers: Readonly<Record<string, string>>;
  /** Who carries a question to a server, as node:https does, which does so where this is left out: a network of another kind. */
  readonly request?: (options: RequestOptions) => ClientRequest;
}

/**
 * Reads the credentials anew, as tokens and certificates are rotated.
 * @throws VipnatError API_CREDENTIALS_INVALID
 */
export type ReadAccess = () => Promise<ApiAccess>;

/** What tells a pod where the API is. */
type Environment = Readonly<Record<string, string | undefined>>;

/** Where a pod has its token and the CA. Source: Kubernetes, "Accessing the Kubernetes API from a Pod". */
export const serviceAccountFolder = '/var/run/secrets/kubernetes.io/serviceaccount';

/** A kubeconfig with many clusters and embedded certificates has some ten thousand bytes. */
const maxBytes = 1_048_576;

/** The credentials of `--kubeconfig`, else those of the pod's service account; null where there are neither. `root` is for tests. */
export function findAccess(
  kubeconfig: string | null,
  environment: Environment,
  root = '',
): ReadAccess | null {
  if (kubeconfig !== null) {
    return () =>
      readAccess(kubeconfig, kubeconfig, (config) => {
        config.loadFromFile(kubeconfig);
      });
  }
  const token = `${root}${serviceAccountFolder}/token`;
  if ((environment['KUBERNETES_SERVICE_HOST'] ?? '') === '' || !isFile(token)) return null;
  return async () => {
    const load = (config: KubeConfig) => {
      config.loadFromCluster(root);
    };
    return { ...(await readAccess("this pod's service account", token, load)), isInCluster: true };
  };
}

async function readAccess(
  origin: string,
  file: string,
  load: (config: KubeConfig) => void,
): Promise<ApiAccess> {
  if (!isFile(file)) throw unusable(origin, `${file} is not a readable file`);
  // Imported late, as only those with credentials need it. scripts/build.mjs leaves out what is refused below.
  const client = await import('@kubernetes/client-node/dist/config.js');
  try {
    const config = new client.KubeConfig();
    load(config);
    return await toAccess(origin, config);
  } catch (error) {
    if (error instanceof VipnatError) throw error;
    // The parser's own words quote the file, with its secrets.
    throw unusable(origin, describeLoadFailure(error));
  }
}

async function toAccess(origin: string, config: KubeConfig): Promise<ApiAccess> {
  const cluster = config.getCurrentCluster();
  const user = config.getCurrentUser();
  if (cluster === null || user === null)
    throw unusable(origin, 'its current context names no cluster and user');
  refuseDetours(origin, cluster, user);
  const url = URL.parse(cluster.server);
  if (url?.protocol !== 'https:') throw unusable(origin, 'its server is not an https:// address');
  const options: RequestOptions = {};
  await config.applyToHTTPSOptions(options);
  const { ca, cert, key, rejectUnauthorized, auth } = options;
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  return {
    origin,
    host,
    port: url.port === '' ? 443 : Number(url.port),
    serverName: cluster.tlsServerName ?? host,
    isInCluster: false,
    tls: dropUndefined({ ca, cert, key, rejectUnauthorized }),
    headers: toHeaders(options.headers, auth),
  };
}

function refuseDetours(origin: string, { proxyUrl }: Cluster, { exec, authProvider }: User): void {
  const provider = authProvider as { readonly name?: unknown } | null | undefined;
  if (Boolean(exec) || (Boolean(provider) && provider?.name !== 'tokenFile')) {
    throw unusable(origin, 'its user gets credentials from another program, which vipnat does not start');
  }
  if (Boolean(proxyUrl)) throw unusable(origin, 'its cluster is behind a proxy (proxy-url)');
}

function toHeaders(
  headers: RequestOptions['headers'],
  auth: string | null | undefined,
): Record<string, string> {
  const own = Object.entries(headers ?? {}).map(([name, value]) => [name, String(value).trim()] as const);
  const basic = auth ? [['Authorization', `Basic ${Buffer.from(auth).toString('base64')}`] as const] : [];
  return Object.fromEntries([...own, ...basic]);
}

function dropUndefined(tls: Record<string, unknown>): ApiAccess['tls'] {
  return Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined));
}

function isFile(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  return found !== undefined && found.isFile() && found.size <= maxBytes;
}

function describeLoadFailure(error: unknown): string {
  const { message, code, path } = error as NodeJS.ErrnoException;
  if (code !== undefined && path !== undefined) return `${path} cannot be read (${code})`;
  // client-node 2.0, config_types.js
  return /^\w+\[\d+\]\.[\w.]+ is missing$/.test(message) ? message : 'it is not a kubeconfig in YAML';
}

function unusable(origin: string, why: string): VipnatError {
  return new VipnatError('API_CREDENTIALS_INVALID', `the credentials of ${origin} cannot be used: ${why}`);
}
