import type { Logger } from '../lib/telemetry/log.ts';
import type { Clock, Random } from '../lib/clock.ts';
import { type Meter, noMeter } from '../lib/telemetry/metrics.ts';
import { VipnatError, toVipnatError } from '../lib/errors.ts';
import {
  type Unreadable,
  describeUnreadable,
  toSliceResource,
  toServiceResource,
  type EndpointSlice,
  type Service,
  quoteForeign,
  type ApiObject,
  type Resource,
} from '../lib/kubernetes/client.ts';
import {
  type Connection,
  formatServer,
  type ApiRoute,
  type KnownApiservers,
} from '../lib/kubernetes/route.ts';
import { kubernetesService } from '../lib/kube-proxy/read.ts';
import {
  type Family,
  families,
  mapFamilies,
  type Endpoint,
  parseAddress,
  sortEndpoints,
  classifyAddress,
} from '../lib/net.ts';
import type { Sourced } from '../lib/text.ts';
import { listObjects } from '../lib/kubernetes/list-watch.ts';
import { Informer } from '../lib/kubernetes/informer.ts';

/** What becomes of following the API, as log lines: one when it is lost and one when it is back, whatever is wrong in between. */
export class ApiLog {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #meter: Meter;
  #lostAt: number | null = null;
  #isServiceRefused = false;

  constructor(logger: Logger, clock: Clock, meter: Meter = noMeter) {
    this.#logger = logger;
    this.#clock = clock;
    this.#meter = meter;
  }

  /** Nobody has answered as they should. */
  lost({ message, code }: VipnatError, isKnown: boolean): void {
    const what = `vipnat cannot follow the Kubernetes API: ${message}`;
    if (this.#lostAt !== null) {
      this.#logger.debug(what, { code });
      return;
    }
    this.#lostAt = this.#clock.now();
    this.#meter.count('vipnat_failures_total', { code });
    const next = isKnown
      ? 'The apiservers that the API last named stay in use'
      : 'vipnat uses other sources of apiservers';
    this.#logger.warn(`${what}. ${next}. vipnat keeps trying`, { code });
  }

  /** The one object of a kind cannot be read: what it said before counts, if it said anything. */
  unreadable(kind: string, unreadable: Unreadable): void {
    this.#meter.count('vipnat_failures_total', { code: 'API_ANSWER_UNEXPECTED' });
    this.#logger.warn(describeUnreadable(kind, unreadable), { code: 'API_ANSWER_UNEXPECTED' });
  }

  /** Called whenever the EndpointSlice is followed: why the Service may not be read as well, or null when it may. */
  serviceRefused(problem: VipnatError | null): void {
    if (this.#isServiceRefused === (problem !== null)) return;
    this.#isServiceRefused = problem !== null;
    if (problem === null) {
      this.#logger.info('vipnat can read the Service kubernetes from the API again');
      return;
    }
    const { message, code } = refuseService(problem);
    this.#logger.warn(message, { code });
  }

  /** Everything is followed, for the first time or again. */
  followed({ access, server }: Connection): void {
    const again = this.#lostAt === null ? '' : ` again after ${formatAge(this.#clock.now() - this.#lostAt)}`;
    this.#lostAt = null;
    this.#logger.info(`vipnat follows the API at ${formatServer(server)}${again} (${access.origin})`);
  }
}

/** That the Service may not be read, from the answer that said so, with what follows. */
function refuseService(refusal: VipnatError): VipnatError {
  const { code, message } = refusal;
  return new VipnatError(
    code,
    `vipnat may not read the Service kubernetes: ${message}. It follows the apiservers nevertheless. Session affinity and the ClusterIP come from kube-proxy and --cluster-ip`,
    { cause: refusal },
  );
}

function formatAge(ms: number): string {
  return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
}

/**
 * The apiservers: kube-apiserver keeps them in one slice, of the family that it advertises, and names it as the Service
 * (1.36, pkg/controlplane/reconcilers). A slice that other software labels for the Service is not read.
 */
export const endpointSlices = toSliceResource(kubernetesService);

/** The Service in the API. */
export const services = toServiceResource(kubernetesService);

/** The API's own default for sessionAffinity ClientIP, and its bounds (core/v1 DefaultClientIPServiceAffinitySeconds). */
const defaultAffinitySeconds = 10_800;
/** The most that the API takes for it. */
export const maxAffinitySeconds = 86_400;

/** A broken list names many: a few show what is wrong. */
const maxRefused = 5;

const familyToAddressType: Readonly<Record<Family, string>> = { ipv4: 'IPv4', ipv6: 'IPv6' };

/** What the API has said comes to. Null is for what it has not said yet. Pure. */
export function toApiView(
  slices: readonly EndpointSlice[] | null,
  service: Service | null,
  isCurrent: boolean,
): ApiView {
  const readings = (slices ?? []).map(readSlice);
  const affinity = readAffinity(service);
  const refused = [...readings.flatMap((one) => one.refused), ...affinity.refused];
  return {
    endpoints: mapFamilies((family) => join(readings.filter((one) => one.family === family))),
    clusterIps: readClusterIps(service),
    affinitySeconds: affinity.seconds,
    refused: refused.slice(0, maxRefused),
    isCurrent,
  };
}

function readSlice(slice: EndpointSlice) {
  const { name } = slice.metadata;
  const where = nameSlices([name]);
  const family = families.find((one) => familyToAddressType[one] === slice.addressType) ?? null;
  const port = findPort(slice);
  // A null condition is to be taken as ready (discovery/v1 EndpointConditions).
  const ready = (slice.endpoints ?? []).filter(({ conditions }) => conditions?.ready !== false);
  const texts = ready.flatMap(({ addresses }) => addresses);
  if (texts.length === 0) return { name, family, endpoints: [], refused: [] };
  if (family === null || port === null) {
    const what =
      family === null ? `addresses of type ${quoteForeign(slice.addressType)}` : 'no TCP port named https';
    return { name, family, endpoints: [], refused: [`vipnat does not use ${where}: it has ${what}`] };
  }
  const read = texts.map((text) => ({ text, address: parseAddress(text) }));
  const isRight = ({ address }: (typeof read)[number]) => address?.family === family;
  return {
    name,
    family,
    endpoints: read.filter(isRight).map(({ address }) => ({ family, address: address?.text ?? '', port })),
    refused: read
      .filter((one) => !isRight(one))
      .map(
        ({ text }) =>
          `${JSON.stringify(quoteForeign(text))} is not an ${familyToAddressType[family]} address, so vipnat does not use it as an apiserver (${where})`,
      ),
  };
}

/** The port named https, or the only one. */
function findPort({ ports }: EndpointSlice): number | null {
  const all = ports ?? [];
  const chosen =
    all.find(({ name }) => name === kubernetesService.portName) ?? (all.length === 1 ? all[0] : undefined);
  const isTcp = (chosen?.protocol ?? 'TCP') === 'TCP';
  const port = chosen?.port ?? 0;
  return isTcp && isPort(port) ? port : null;
}

function isPort(port: number): boolean {
  return Number.isInteger(port) && port > 0 && port < 65_536;
}

function join(readings: readonly ReturnType<typeof readSlice>[]): Sourced<readonly Endpoint[]> | undefined {
  if (readings.length === 0) return undefined;
  const names = readings.map(({ name }) => name).sort();
  return { value: sortEndpoints(readings.flatMap(({ endpoints }) => endpoints)), seenIn: nameSlices(names) };
}

function nameSlices(names: readonly string[]): string {
  return `the API's EndpointSlice${names.length === 1 ? '' : 's'} ${names.join(', ')}`;
}

/** `None`, and whatever no Service can have, is none. */
function readClusterIps(service: Service | null): ApiView['clusterIps'] {
  const { clusterIP, clusterIPs } = service?.spec ?? {};
  const texts = [...(clusterIPs ?? []), clusterIP ?? ''];
  const addresses = texts.map(parseAddress).filter((address) => address !== null);
  const usable = addresses.filter((address) => classifyAddress(address) === 'unicast');
  return Object.fromEntries(usable.reverse().map(({ family, text }) => [family, text]));
}

function readAffinity(service: Service | null): { seconds: number | null; refused: readonly string[] } {
  const { sessionAffinity, sessionAffinityConfig } = service?.spec ?? {};
  if (sessionAffinity !== 'ClientIP') return { seconds: null, refused: [] };
  const seconds = sessionAffinityConfig?.clientIP?.timeoutSeconds ?? defaultAffinitySeconds;
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= maxAffinitySeconds)
    return { seconds, refused: [] };
  const sentence = `${seconds} s is not a valid time for session affinity, so vipnat uses ${defaultAffinitySeconds} s (the API's Service kubernetes)`;
  return { seconds: defaultAffinitySeconds, refused: [sentence] };
}

/** The dependencies of a one-shot command's source, and its listener. */
interface ListedApiOptions {
  readonly route: ApiRoute;
  readonly clock: Clock;
  /** Called once if no server answered well, or only in part; the message says what follows. */
  readonly onProblem: (problem: VipnatError) => void;
}

/** A person waits. */
const maxWaitMs = 2000;

/** Lists once, at the first `getView`, in at most two seconds; later calls get the same answer. */
export class ListedApi implements ClusterApi {
  readonly #options: ListedApiOptions;
  #answer: Promise<ApiView | null> | null = null;
  #refusal: VipnatError | null = null;

  constructor(options: ListedApiOptions) {
    this.#options = options;
  }

  getView(known: KnownApiservers): Promise<ApiView | null> {
    this.#options.route.setServers(known);
    this.#answer ??= this.#ask();
    return this.#answer;
  }

  async #ask(): Promise<ApiView | null> {
    const { clock, onProblem } = this.#options;
    const timeout = new AbortController();
    const cancel = clock.schedule(maxWaitMs, timeout.abort.bind(timeout));
    const answer = await this.#askInTurn(timeout.signal).finally(cancel);
    if (answer instanceof VipnatError) {
      const { code, message } = answer;
      const problem = `${message}. vipnat uses other sources of apiservers`;
      onProblem(new VipnatError(code, problem, { cause: answer }));
      return null;
    }
    if (this.#refusal !== null) onProblem(refuseService(this.#refusal));
    return answer;
  }

  /** One server after the other; answers what was wrong with the first when none does. */
  async #askInTurn(signal: AbortSignal): Promise<ApiView | VipnatError> {
    const { route } = this.#options;
    let problem: VipnatError | null = null;
    for (let tries = 0; tries < route.count; tries += 1) {
      const answer = await this.#list(signal).catch((error: unknown) =>
        toVipnatError(error, 'API_ANSWER_UNEXPECTED', 'reading from the API'),
      );
      if (!(answer instanceof VipnatError)) return answer;
      problem ??= answer;
    }
    return problem ?? noAnswer();
  }

  async #list(signal: AbortSignal): Promise<ApiView> {
    const { route, clock } = this.#options;
    const connection = await route.choose();
    const limitMs = maxWaitMs / route.count;
    const options = { ...connection, clock, forbidden: route.forbidden, signal, limitMs };
    try {
      const [slices, found] = await Promise.all([
        listObjects(endpointSlices, options),
        listObjects(services, options).catch((error: unknown) => this.#goWithoutService(error)),
      ]);
      const [service = null] = found?.objects ?? [];
      return toApiView(slices.objects, service, true);
    } catch (error) {
      route.markFailed(connection.server);
      throw signal.aborted ? noAnswer() : error;
    }
  }

  /** The apiservers are known without it. */
  #goWithoutService(error: unknown): null {
    if (!(error instanceof VipnatError) || error.code !== 'API_FORBIDDEN') throw error;
    this.#refusal = error;
    return null;
  }
}

function noAnswer(): VipnatError {
  return new VipnatError('API_UNREACHABLE', `the API did not answer within ${maxWaitMs / 1000} s`);
}

/** The dependencies of the agent's source, and its listeners. */
interface WatchedApiOptions extends Pick<ListedApiOptions, 'route' | 'clock'> {
  readonly random: Random;
  readonly report: ApiLog;
  /** Called after every change of the view: a hint to sync. */
  readonly onChange: () => void;
}

/** Follows the API by list and watch, from the first `getView` on. Losing it leaves the view as it was, but for `isCurrent` (I10). */
export class WatchedApi implements ClusterApi {
  readonly #options: WatchedApiOptions;
  readonly #followers: readonly Pick<Informer<ApiObject>, 'start' | 'wake' | 'failOver' | 'stop'>[];
  readonly #followed = new Set<string>();
  /** Why the Service may not be read, which only its affinity and ClusterIPs need; null when it may. */
  #refusal: VipnatError | null = null;
  /** Where the EndpointSlice was last followed. */
  #connection: Connection | null = null;
  #slices: readonly EndpointSlice[] | null = null;
  #service: Service | null = null;
  #isStarted = false;
  #isCurrent = true;
  following: Following;
  /** What it has said so far. */
  view: ApiView | null = null;

  constructor(options: WatchedApiOptions) {
    this.#options = options;
    this.following = { isFollowed: false, since: options.clock.now() };
    this.#followers = [
      this.#follow(endpointSlices, (objects) => {
        this.#slices = objects;
      }),
      this.#follow(services, ([service = null]) => {
        this.#service = service;
      }),
    ];
  }

  getView(known: KnownApiservers): ApiView | null {
    const hasOthers = this.#options.route.setServers(known);
    if (!this.#isStarted) for (const follower of this.#followers) follower.start();
    else if (hasOthers) for (const follower of this.#followers) follower.wake();
    this.#isStarted = true;
    return this.view;
  }

  /** Called with whom this node's probes find down, as text, when that changes: others are followed, if any. */
  setUnhealthy(unwell: ReadonlySet<string>): void {
    this.#options.route.setUnhealthy(unwell);
    for (const follower of this.#followers) follower.failOver();
  }

  stop(): void {
    for (const follower of this.#followers) follower.stop();
  }

  #follow<T extends ApiObject>(resource: Resource<T>, take: (objects: readonly T[]) => void): Informer<T> {
    const [{ kind }, { report }] = [resource, this.#options];
    return new Informer({
      ...this.#options,
      resource,
      onChanges: (_changes, objects) => {
        take([...objects.values()]);
        this.#update();
      },
      onUnreadable: report.unreadable.bind(report, kind),
      onLost: this.#lose.bind(this, kind),
      onFollowed: this.#regain.bind(this, kind),
    });
  }

  #lose(kind: string, problem: VipnatError): void {
    if (kind === services.kind && problem.code === 'API_FORBIDDEN') {
      // The first time the EndpointSlice may be refused a moment later: then that is what is said.
      const isReportedAgain = this.#refusal !== null;
      this.#refusal = problem;
      if (isReportedAgain) this.#reportFollowed();
      return;
    }
    this.#followed.delete(kind);
    this.#setFollowed(false);
    this.#options.report.lost(problem, this.view !== null);
    this.#setCurrent(false);
  }

  #regain(kind: string, connection: Connection): void {
    this.#followed.add(kind);
    if (kind === endpointSlices.kind) this.#connection = connection;
    else this.#refusal = null;
    this.#reportFollowed();
  }

  /** It is back when all kinds are that may be read, the EndpointSlice among them. */
  #reportFollowed(): void {
    const isServiceKnown = this.#followed.has(services.kind) || this.#refusal !== null;
    if (this.#connection === null || !this.#followed.has(endpointSlices.kind) || !isServiceKnown) return;
    this.#options.report.serviceRefused(this.#refusal);
    if (this.following.isFollowed) return;
    this.#setFollowed(true);
    this.#options.report.followed(this.#connection);
    this.#setCurrent(true);
  }

  #setFollowed(isFollowed: boolean): void {
    if (this.following.isFollowed === isFollowed) return;
    this.following = { isFollowed, since: this.#options.clock.now() };
  }

  #setCurrent(isCurrent: boolean): void {
    this.#isCurrent = isCurrent;
    if (this.view !== null) this.#update();
  }

  #update(): void {
    const before = JSON.stringify(this.view);
    this.view = toApiView(this.#slices, this.#service, this.#isCurrent);
    if (JSON.stringify(this.view) !== before) this.#options.onChange();
  }
}

/** What the Kubernetes API says of the Service default/kubernetes. Never changed in place. */
export interface ApiView {
  /** The ready apiservers, sorted, as the API lists them: `admit` decides whether they are accepted. A family without an EndpointSlice is missing. */
  readonly endpoints: Readonly<Partial<Record<Family, Sourced<readonly Endpoint[]>>>>;
  /** The Service's ClusterIPs, each one that a Service can have. */
  readonly clusterIps: Readonly<Partial<Record<Family, string>>>;
  /** For how long a client stays with its apiserver (sessionAffinity ClientIP): 1 to 86,400; null for no affinity. */
  readonly affinitySeconds: number | null;
  /** What was listed and can be nothing of the kind: a sentence for each. */
  readonly refused: readonly string[];
  /** Whether the API still answers. False: this is from the API's last answer. */
  readonly isCurrent: boolean;
}

/** The Kubernetes API as a source of apiservers: the agent's is `WatchedApi`, a command's `ListedApi`. */
export interface ClusterApi {
  /** Called at every sync with the apiservers that may be asked. Answers what the API has reported so far, or null. Never rejects. */
  getView(known: KnownApiservers): ApiView | null | Promise<ApiView | null>;
}

/** Whether the API is followed, everything of it, and since when that is so, by the Clock. */
export interface Following {
  readonly isFollowed: boolean;
  readonly since: number;
}

/** An API source that follows by itself, from the first `getView` on. */
export interface FollowedApi extends Omit<WatchedApi, 'following'> {
  /** How that goes; null where nothing is followed. */
  readonly following: Following | null;
}

/** No credentials are configured: nothing is asked. */
export const noApi: FollowedApi = {
  view: null,
  following: null,
  getView: () => null,
  setUnhealthy: () => undefined,
  stop: () => undefined,
};
