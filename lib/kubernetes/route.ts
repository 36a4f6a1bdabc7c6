import { type Endpoint, parseAddress, classifyAddress, formatEndpoint, isAtVip } from '../net.ts';
import { isIP } from 'node:net';
import { request, type RequestOptions } from 'node:https';
import type { ClientRequest } from 'node:http';
import type { KubeConfig, Cluster, User } from '@kubernetes/client-node';
import { VipnatError } from '../errors.ts';
import { readFileSync, statSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { homedir } from 'node:os';
import { createLogIn, type LogIn } from '../kernel/credential-plugin.ts';
import * as z from 'zod/mini';

interface RouteOptions {
  /** Null for a service account's, if any. */
  readonly kubeconfig: string | null;
  /** Where the API is not asked. */
  readonly vips: readonly Endpoint[];
}

/** How to get at the Kubernetes API; null where there are no credentials for it. */
export function findRoute({ kubeconfig, vips }: RouteOptions): ApiRoute | null {
  const readAccess = findAccess(kubeconfig, process.env);
  return readAccess === null ? null : new ApiRoute(readAccess, vips);
}

interface ApiServer {
  /** A name, or an address without brackets. */
  readonly host: string;
  readonly port: number;
}

/** Who may be asked: the apiservers that are known, from wherever, and which addresses are this host's own. */
export interface KnownApiservers {
  readonly endpoints: readonly Endpoint[];
  readonly localAddresses: ReadonlySet<string>;
  /** Where this host's own apiserver would be, which nobody names. Nowhere when left out. */
  readonly own?: readonly Endpoint[];
}

/** kube-apiserver's own default (--secure-port). */
const usualPort = 6443;

/**
 * Where to ask, best first, and never by a virtual IP: that would be vipnat's own rules. An address that the credentials
 * name; else the apiserver of this host, then the others; one of this host that nobody names after all of them; a ClusterIP
 * and a name last, for the one needs kube-proxy and the other DNS. While no apiserver is known, this host may have one. Pure.
 */
export function listApiServers(
  { host, port, isInCluster }: Pick<ApiAccess, 'host' | 'port' | 'isInCluster'>,
  known: KnownApiservers,
  vips: readonly Endpoint[],
): ApiServer[] {
  const named = { host: parseAddress(host)?.text ?? host, port };
  const isVip = vips.some(({ address }) => address === named.host);
  const isFirst = isIP(host) !== 0 && !isVip && !isInCluster;
  const redirected = listRedirected(known, vips);
  const isAnybodyNamed = known.endpoints.some((endpoint) => !isAtVip(endpoint, vips));
  const servers = [
    ...(isFirst ? [named] : []),
    ...redirected.map(({ address, port }) => ({ host: address, port })),
    ...(isAnybodyNamed || isFirst ? [] : guessLocal(port, isInCluster)),
    ...(isFirst || isVip ? [] : [named]),
  ];
  return [...new Map(servers.map((server) => [formatServer(server), server])).values()];
}

/**
 * Whether probes find the apiserver there down. One at a loopback address is this host's own; what is behind a name or
 * a ClusterIP nobody probes. `unwell` has those who are down by their text, see `formatEndpoint`. Pure.
 */
export function isUnhealthy(
  { host, port }: ApiServer,
  { endpoints, localAddresses }: KnownApiservers,
  unwell: ReadonlySet<string>,
): boolean {
  if (unwell.has(formatServer({ host, port }))) return true;
  const address = parseAddress(host);
  if (address === null || classifyAddress(address) !== 'loopback') return false;
  const own = endpoints.filter((endpoint) => endpoint.port === port && localAddresses.has(endpoint.address));
  return own.length > 0 && own.every((endpoint) => unwell.has(formatEndpoint(endpoint)));
}

/** `10.0.0.11:6443`, `[fd00::11]:6443`, `api.example.com:6443`. */
export function formatServer({ host, port }: ApiServer): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Those of this host first, and where one of it would be that nobody names last. */
function listRedirected(known: KnownApiservers, vips: readonly Endpoint[]): Endpoint[] {
  const { endpoints, localAddresses, own = [] } = known;
  const isLocal = ({ address }: Endpoint) => localAddresses.has(address);
  const others = endpoints.filter((endpoint) => !isLocal(endpoint));
  return [...endpoints.filter(isLocal), ...others, ...own].filter((endpoint) => !isAtVip(endpoint, vips));
}

function guessLocal(port: number, isInCluster: boolean): ApiServer[] {
  const ports = isInCluster ? [usualPort] : [port, usualPort];
  return ports.map((port) => ({ host: '127.0.0.1', port }));
}

/** With which credentials to ask, and where. */
export interface Connection {
  readonly access: ApiAccess;
  readonly server: ApiServer;
}

/** Which apiserver is asked: the best until it fails, then the next. */
export class ApiRoute {
  readonly #readAccess: ReadAccess;
  readonly #vips: readonly Endpoint[];
  #known: KnownApiservers | null;
  /** Those that failed since somebody last answered, by text. */
  readonly #failed = new Set<string>();
  /** Those that were there to ask at the last `choose`. */
  #servers: readonly ApiServer[] = [];
  #unwell: ReadonlySet<string> = new Set();

  /** With null for the apiservers, nobody is asked but whom the credentials name. */
  constructor(
    readAccess: ReadAccess,
    vips: readonly Endpoint[],
    known: KnownApiservers | null = nobodyKnown,
  ) {
    this.#readAccess = readAccess;
    this.#vips = vips;
    this.#known = known;
  }

  /** Addresses that no connection may go to. */
  get forbidden(): ReadonlySet<string> {
    return new Set(this.#vips.map(({ address }) => address));
  }

  /** How many there were to ask at the last `choose`. */
  get count(): number {
    return Math.max(1, this.#servers.length);
  }

  /** Sets the servers to ask from now on. Returns whether they differ from those before. */
  setServers(known: KnownApiservers): boolean {
    const before = describeKnown(this.#known);
    this.#known = known;
    return describeKnown(known) !== before;
  }

  /**
   * Whom to ask next: the best that has not failed, those that are down last; the best again after all have failed.
   * @throws VipnatError API_CREDENTIALS_INVALID
   */
  async choose(): Promise<Connection> {
    const access = await this.#readAccess();
    const { host, port } = access;
    const listed = this.#known === null ? [{ host, port }] : listApiServers(access, this.#known, this.#vips);
    const servers = listed.toSorted((a, b) => Number(this.#isUnwell(a)) - Number(this.#isUnwell(b)));
    this.#servers = servers;
    const untried = servers.filter((server) => !this.#failed.has(formatServer(server)));
    if (untried.length === 0) this.#failed.clear();
    const [server] = [...untried, ...servers];
    // Never empty: without any other there is the one on this host.
    return { access, server: server ?? { host: '127.0.0.1', port: access.port } };
  }

  /** Who is down by vipnat's probes from now on, as text, see `formatEndpoint`. */
  setUnhealthy(unwell: ReadonlySet<string>): void {
    this.#unwell = unwell;
  }

  /** Whether it is down, and another may be asked that is not: what it says may be of long ago. */
  isWorseThanOthers(server: ApiServer): boolean {
    return this.#isUnwell(server) && this.#servers.some((one) => !this.#isUnwell(one));
  }

  /** It did not do. */
  markFailed(server: ApiServer): void {
    this.#failed.add(formatServer(server));
  }

  /** The next to be asked is the best again: it may be back. */
  resetFailures(): void {
    this.#failed.clear();
  }

  #isUnwell(server: ApiServer): boolean {
    return this.#known !== null && isUnhealthy(server, this.#known, this.#unwell);
  }
}

const nobodyKnown: KnownApiservers = { endpoints: [], localAddresses: new Set() };

function describeKnown(known: KnownApiservers | null): string {
  const { endpoints, localAddresses, own = [] } = known ?? nobodyKnown;
  return [...endpoints, ...own]
    .map(({ address, port }) => `${address} ${port} ${String(localAddresses.has(address))}`)
    .sort()
    .join();
}

/**
 * With which credentials the API is asked. client-node reads them, as kubectl would. The agent refuses a kubeconfig that gets them from
 * another program: that program would run with the agent's rights (I2). NODE_TLS_REJECT_UNAUTHORIZED decides nothing.
 */
// Not `import { type … }`: that would load the package.

/** How to get at the API: where it is said to be, and what shows who we are. */
export interface ApiAccess {
  /** Where this is from, for people. */
  readonly origin: string;
  /** As the credentials name it, without brackets: maybe a virtual IP or ClusterIP. */
  readonly host: string;
  readonly port: number;
  /** What is before each path at the host itself, of a proxy for several clusters; nothing when left out. */
  readonly prefix?: string;
  /** The name or address that the server's certificate must be valid for, wherever the connection goes. */
  readonly serverName: string;
  /** Whether `host` is a ClusterIP, which only kube-proxy leads anywhere. */
  readonly isInCluster: boolean;
  readonly tls: Pick<RequestOptions, 'ca' | 'cert' | 'key' | 'rejectUnauthorized'>;
  readonly headers: Readonly<Record<string, string | string[]>>;
  /** The server does not take these: the program that gave them gives others the next time. Nothing when left out. */
  readonly forget?: () => void;
  /** Who carries a question to a server, as node:https does, which does so where this is left out: a network of another kind. */
  readonly request?: (options: RequestOptions) => ClientRequest;
}

/**
 * Reads the credentials again, as tokens and certificates are rotated.
 * @throws VipnatError API_CREDENTIALS_INVALID
 */
export type ReadAccess = () => Promise<ApiAccess>;

/** Where a pod has its token and the CA. Source: Kubernetes, "Accessing the Kubernetes API from a Pod". */
export const serviceAccountFolder = '/var/run/secrets/kubernetes.io/serviceaccount';

/** A kubeconfig with many clusters and embedded certificates has some ten thousand bytes. */
const maxBytes = 1_048_576;

/** The credentials of `--kubeconfig`, else those of the pod's service account; null where there are neither. `root` is for tests. */
export function findAccess(
  kubeconfig: string | null,
  environment: NodeJS.ProcessEnv,
  root = '',
): ReadAccess | null {
  if (kubeconfig !== null) {
    return () =>
      readAccess(kubeconfig, [kubeconfig], (config) => {
        config.loadFromFile(kubeconfig);
      });
  }
  const token = `${root}${serviceAccountFolder}/token`;
  if ((environment['KUBERNETES_SERVICE_HOST'] ?? '') === '' || !isFile(token)) return null;
  return async () => {
    const load = (config: KubeConfig) => {
      config.loadFromCluster(root);
    };
    return { ...(await readAccess("this pod's service account", [token], load)), isInCluster: true };
  };
}

/** Where a command that a person runs finds credentials; null for what no flag names. */
export interface PersonalSources {
  readonly kubeconfig: string | null;
  readonly context: string | null;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly home?: string;
  readonly now: () => Date;
  readonly pluginMs?: number;
}

/**
 * The credentials of the person who runs a command, as kubectl finds them: `--kubeconfig`, else the files of KUBECONFIG, merged, else
 * ~/.kube/config, else, without a context, the pod's service account. It starts a credential plugin once, and again after its
 * credentials have expired or are refused.
 * @throws VipnatError API_CREDENTIALS_INVALID, naming all these places, where there are none
 */
export function findPersonalAccess(sources: PersonalSources): ReadAccess {
  const { kubeconfig, context, environment, home = homedir() } = sources;
  const list = environment['KUBECONFIG'] ?? '';
  const usual = join(home, '.kube/config');
  const listed = list.split(delimiter).filter((path) => path !== '');
  const isThere = (path: string) => inspect(path)?.isFile() === true;
  const found = (listed.length === 0 ? [usual] : listed).filter(isThere);
  const files = kubeconfig === null ? found : [kubeconfig];
  // The service account has no contexts.
  const isForPod = files.length + listed.length === 0 && context === null;
  const inPod = isForPod ? findAccess(null, environment) : null;
  if (inPod !== null) return inPod;
  if (files.length === 0) throw lacking(listed.length === 0 ? null : list, usual);
  const logIn = createLogIn(sources);
  const load: Load = async (config, create) => {
    config.loadFromOptions(await mergeFiles(files, create, context));
  };
  return () => readAccess(files.join(', '), files, load, logIn);
}

function lacking(list: string | null, usual: string): VipnatError {
  const places = `--kubeconfig is not given, KUBECONFIG is ${list ?? 'empty'}`;
  const which = list === null ? `there is no file ${usual}` : 'none of its files exists';
  return new VipnatError('API_CREDENTIALS_INVALID', `no credentials for the API: ${places}, and ${which}`);
}

type Load = (config: KubeConfig, create: () => KubeConfig) => void | Promise<void>;

/** As kubectl merges: of two with the same name the first counts, and so does the first current context. */
async function mergeFiles(files: readonly string[], create: () => KubeConfig, context: string | null) {
  const parts = await Promise.all(files.map((file) => loadFile(create(), file)));
  const contexts = parts.flatMap((part) => part.contexts);
  const names = new Set(contexts.map(({ name }) => name));
  const chosen = context ?? parts.map((part) => part.getCurrentContext()).find(Boolean) ?? '';
  if (!names.has(chosen)) {
    const what = chosen === '' ? 'no current context' : `no context ${chosen}`;
    const known = [...names].join(', ') || 'none';
    throw unusable(files.join(', '), `they have ${what}. Name one with --context. Contexts: ${known}`);
  }
  const [clusters, users] = [parts.flatMap((part) => part.clusters), parts.flatMap((part) => part.users)];
  return { clusters, users, contexts, currentContext: chosen };
}

/** A user, with what client-node leaves out of it. */
type LoadedUser = User & { readonly own?: unknown };

/** A user's token file, as client-node has it. It wins over a token. Null without one. */
function readTokenFile(own: unknown, file: string): object | null {
  const { tokenFile } = (own ?? {}) as { readonly tokenFile?: unknown };
  if (typeof tokenFile !== 'string' || tokenFile === '') return null;
  const config = { tokenFile: resolve(dirname(file), tokenFile) };
  return { token: undefined, authProvider: { name: 'tokenFile', config } };
}

/** A path of a program or a token starts from the folder of the file. An entry that cannot be read stops no other. */
async function loadFile(config: KubeConfig, file: string): Promise<KubeConfig> {
  const { parse } = await import('yaml');
  let users: readonly ({ readonly name?: string; readonly user?: unknown } | null)[] | undefined;
  try {
    const document: unknown = parse(readFileSync(file, 'utf8'), { merge: true }) ?? {};
    ({ users } = document as { readonly users: typeof users });
    config.loadFromString(JSON.stringify(document), { onInvalidEntry: 'filter' });
    config.makePathsAbsolute(dirname(file));
  } catch (error) {
    throw unusable(file, describeLoadFailure(error));
  }
  for (const user of config.users as { readonly name: string; exec?: { command?: unknown } | null }[]) {
    const own = users?.find((one) => one?.name === user.name)?.user;
    const { exec } = Object.assign(user, { own }, readTokenFile(own, file));
    if (typeof exec?.command === 'string' && exec.command.includes('/'))
      exec.command = resolve(dirname(file), exec.command);
  }
  return config;
}

const text = z.nullish(z.string());

/** Source: client-go, AuthInfo. */
const impersonation = z.object({
  ...{ as: text, 'as-uid': text, 'as-groups': z.nullish(z.array(z.string())) },
  'as-user-extra': z.nullish(z.record(z.string(), z.array(z.string()))),
});

/** As whom a user asks. Source: client-go, impersonatingRoundTripper. */
function readImpersonation(origin: string, user: User): ApiAccess['headers'] {
  const { data } = impersonation.safeParse((user as LoadedUser).own ?? {});
  if (data === undefined)
    throw unusable(origin, `as, or as-… of its user ${user.name} is not as kubectl defines it`);
  const { as, 'as-uid': uid, 'as-groups': groups, 'as-user-extra': extra } = data;
  const given = [
    ...[['User', as] as const, ['Uid', uid] as const, ['Group', groups] as const],
    ...Object.entries(extra ?? {}).map(
      ([key, values]) => [`Extra-${encodeURIComponent(key)}`, values] as const,
    ),
  ].flatMap(([name, value]) => (value?.length ? [[`Impersonate-${name}`, value] as const] : []));
  if (given.length > 0 && !as) throw unusable(origin, `its user ${user.name} has as-…, and not as`);
  return Object.fromEntries(given);
}

async function readAccess(
  origin: string,
  files: readonly string[],
  load: Load,
  logIn: LogIn | null = null,
): Promise<ApiAccess> {
  const gone = files.find((file) => !isFile(file));
  if (gone !== undefined) throw unusable(origin, `${gone} is not a readable file`);
  // Imported late, as only those with credentials need it. scripts/build.mjs leaves out what is refused below.
  const client = await import('@kubernetes/client-node/dist/config.js');
  try {
    const config = new client.KubeConfig();
    await load(config, () => new client.KubeConfig());
    return await toAccess(origin, config, logIn);
  } catch (error) {
    if (error instanceof VipnatError) throw error;
    // The parser's own words quote the file, with its secrets.
    throw unusable(origin, describeLoadFailure(error));
  }
}

async function toAccess(origin: string, config: KubeConfig, logIn: LogIn | null): Promise<ApiAccess> {
  const { cluster, asWhom, forget } = await enter(origin, config, logIn);
  const url = URL.parse(cluster.server);
  if (url?.protocol !== 'https:') throw unusable(origin, 'its server is not an https:// address');
  const options: RequestOptions = {};
  await config.applyToHTTPSOptions(options);
  const { ca, cert, key, rejectUnauthorized = true, auth, agent } = options;
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const given = Object.entries({ ca, cert, key, rejectUnauthorized });
  const prefix = url.pathname.replace(/\/+$/, '');
  return {
    origin,
    host,
    port: url.port === '' ? 443 : Number(url.port),
    ...(prefix !== '' && { prefix }),
    serverName: cluster.tlsServerName ?? host,
    isInCluster: false,
    tls: Object.fromEntries(given.filter(([, value]) => value !== undefined)),
    headers: { ...toHeaders(options.headers, auth), ...asWhom },
    ...(forget !== undefined && { forget }),
    ...(Boolean(cluster.proxyUrl) && { request: (call) => request({ ...call, agent }) }),
  };
}

/** Answers the cluster of the current context, and as whom to ask. Its user has credentials from then on, or is refused. */
async function enter(origin: string, config: KubeConfig, logIn: LogIn | null) {
  const cluster = config.getCurrentCluster();
  const user = config.getCurrentUser();
  if (cluster === null || user === null)
    throw unusable(origin, 'its current context names no cluster and user');
  const detour = findDetour(cluster, user, logIn !== null);
  if (detour !== null) throw unusable(origin, detour);
  const asWhom = readImpersonation(origin, user);
  if (logIn === null || !Boolean(user.exec)) return { cluster, asWhom };
  const { user: known, forget } = await logIn(origin, user, cluster);
  config.loadFromClusterAndUser(cluster, known);
  return { cluster, asWhom, forget };
}

/** What of a kubeconfig is not followed: for anybody but a person, also a program that it names, and a proxy. Null for nothing. */
function findDetour({ proxyUrl }: Cluster, { exec, authProvider }: User, isPersonal: boolean): string | null {
  const { name: provider = 'tokenFile' } = (authProvider ?? {}) as { readonly name?: string };
  const isForeign = provider !== 'tokenFile';
  if (isForeign && isPersonal) return `its user has the auth-provider ${provider}. Use a plugin (exec)`;
  if (isPersonal) return /^socks/.test(String(proxyUrl)) ? 'its cluster is behind a SOCKS proxy' : null;
  if (isForeign || Boolean(exec))
    return 'its user gets credentials from another program, which vipnat does not start';
  return Boolean(proxyUrl) ? 'its cluster is behind a proxy (proxy-url)' : null;
}

function toHeaders(headers: RequestOptions['headers'], auth: string | null | undefined) {
  const own = Object.entries(headers ?? {}).map(([name, value]) => [name, String(value).trim()] as const);
  const basic = auth ? [['Authorization', `Basic ${Buffer.from(auth).toString('base64')}`] as const] : [];
  return Object.fromEntries([...own, ...basic]);
}

function isFile(path: string): boolean {
  const found = inspect(path);
  return found !== undefined && found.isFile() && found.size <= maxBytes;
}

/** Undefined where there is nothing. */
function inspect(path: string) {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw unusable(path, describeLoadFailure(error));
  }
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
