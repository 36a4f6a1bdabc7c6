import type { Cluster, User } from '@kubernetes/client-node';
import { readFileSync } from 'node:fs';
import { isatty } from 'node:tty';
import type { Result } from 'execa';
import { VipnatError } from '../errors.ts';
import { readJson } from '../text.ts';
import * as z from 'zod/mini';

/**
 * Answers a user with the credentials of the program that the user names, and what starts it again for the next who asks. `origin` says,
 * for people, where the user is from.
 */
export type LogIn = (
  origin: string,
  user: User,
  cluster: Cluster,
) => Promise<{ readonly user: User; readonly forget: () => void }>;

interface PluginHost {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly now: () => Date;
  /** Two minutes unless given: a person may have to log in with a browser. */
  readonly pluginMs?: number;
}

/**
 * Starts a credential plugin once for all who ask, and again when its credentials have expired. It writes to vipnat's standard error, and
 * reads from its terminal. Rejects with API_CREDENTIALS_INVALID.
 */
export function createLogIn({ environment, now, pluginMs = 120_000 }: PluginHost): LogIn {
  let last: Promise<Credential> | null = null;
  let expiresAt = Infinity;
  return async (origin, user, cluster) => {
    if (last === null || now().getTime() >= expiresAt) {
      expiresAt = Infinity;
      last = runPlugin({ environment, now, pluginMs }, origin, user, cluster);
    }
    const used = last;
    const forget = () => {
      if (last === used) last = null;
    };
    const status = await used.catch((error: unknown) => {
      forget();
      throw error;
    });
    expiresAt = Date.parse(status.expirationTimestamp ?? '') || Infinity;
    return { user: toUser(user.name, status), forget };
  };
}

function toUser(name: string, { token, clientCertificateData, clientKeyData }: Credential): User {
  const encode = (text: string | null | undefined) => text && Buffer.from(text).toString('base64');
  const [certData, keyData] = [encode(clientCertificateData), encode(clientKeyData)];
  const given = Object.entries({ token, certData, keyData }).filter(([, value]) => Boolean(value));
  return { name, ...Object.fromEntries(given) };
}

const text = z.nullish(z.string());

/** Source: client-go, ExecConfig: the part `exec` of a user. */
const plugin = z.object({
  apiVersion: z.string(),
  command: z.string().check(z.minLength(1)),
  args: z._default(z.array(z.string()), []),
  env: z._default(z.array(z.object({ name: z.string(), value: z.string() })), []),
  installHint: z._default(z.string(), ''),
  interactiveMode: text,
  provideClusterInfo: z._default(z.boolean(), false),
});

/** Source: client.authentication.k8s.io/v1, ExecCredential. */
const credential = z.object({
  apiVersion: z.string(),
  status: z
    .object({ token: text, clientCertificateData: text, clientKeyData: text, expirationTimestamp: text })
    .check(z.refine(({ token, clientKeyData }) => Boolean(token) || Boolean(clientKeyData))),
});

type Credential = z.output<typeof credential>['status'];

async function runPlugin(
  { environment, pluginMs }: Required<PluginHost>,
  origin: string,
  user: User,
  cluster: Cluster,
): Promise<Credential> {
  const refuse = (what: string) =>
    new VipnatError('API_CREDENTIALS_INVALID', `the credentials of ${origin} cannot be used: ${what}`);
  const config = plugin.safeParse(withoutNulls(user.exec)).data;
  if (config === undefined) throw refuse(`exec of its user ${user.name} is not as kubectl defines it`);
  const { apiVersion, command, args, env, interactiveMode } = config;
  const interactive = interactiveMode !== 'Never' && isatty(0);
  const who = `the program ${command} of its user ${user.name}`;
  if (interactiveMode === 'Always' && !interactive) throw refuse(`${who} needs a terminal`);
  const about = describeCluster(cluster, config);
  const info = JSON.stringify({ kind: 'ExecCredential', apiVersion, spec: { interactive, ...about } });
  const own = Object.fromEntries(env.map(({ name, value }) => [name, value]));
  const { execa } = await import('execa');
  const end = await execa(command, args, {
    env: { ...environment, ...own, KUBERNETES_EXEC_INFO: info },
    extendEnv: false,
    stdin: interactive ? 'inherit' : 'ignore',
    stderr: 'inherit',
    timeout: pluginMs,
    // In a process group of its own, it could not read from the terminal.
    killDescendants: !interactive,
    reject: false,
  });
  const fault = describeFault(end, config.installHint, pluginMs);
  const answer = credential.safeParse(readJson(end.stdout)).data;
  if (fault === null && answer?.apiVersion === apiVersion) return answer.status;
  throw refuse(
    `${who} ${fault ?? `printed no ExecCredential of ${apiVersion} with a token or a certificate`}`,
  );
}

function describeFault(
  { exitCode, signal, code, timedOut }: Pick<Result, 'exitCode' | 'signal' | 'code' | 'timedOut'>,
  installHint: string,
  pluginMs: number,
): string | null {
  if (timedOut) return `did not end within ${pluginMs / 1000} s`;
  if (exitCode === 0) return null;
  const status = signal ?? (exitCode === undefined ? null : `exit status ${exitCode}`);
  if (status !== null) return `failed (${status}). It said why on standard error`;
  return `${code === 'ENOENT' ? 'is not installed' : `cannot be started (${code})`}. ${installHint}`.trim();
}

/** In YAML, a key without a value is null. */
function withoutNulls(exec: unknown): object {
  return Object.fromEntries(Object.entries(exec ?? {}).filter(([, value]) => value !== null));
}

/** Source: client.authentication.k8s.io/v1, Cluster. */
function describeCluster(
  { server, caData, caFile, skipTLSVerify, tlsServerName, proxyUrl }: Cluster,
  { provideClusterInfo }: z.output<typeof plugin>,
): object {
  if (!provideClusterInfo) return {};
  const cluster = {
    server,
    'tls-server-name': tlsServerName,
    'insecure-skip-tls-verify': skipTLSVerify,
    'certificate-authority-data': caData ?? (caFile && readFileSync(caFile, 'base64')),
    'proxy-url': proxyUrl,
  };
  return { cluster };
}
