import { families } from '../../lib/address/address.ts';
import { sortEndpoints } from '../../lib/address/endpoint.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import {
  iptablesDialects,
  type Kernel,
  type KernelQuery,
  type KernelReading,
  type LocalRoutes,
  type WritePlace,
} from '../../lib/kernel/port.ts';
import { nftServiceChain } from '../../lib/kube-proxy/kubernetes-service.ts';
import { type Assessment, assess, type ReconcileInput } from '../decide/assess.ts';
import { type Config } from '../../config/config.ts';
import { type ApiView, type ClusterApi } from '../api/cluster-api.ts';
import { findCandidates } from '../endpoints/candidates.ts';
import { forgetRemoved, forgetService } from '../endpoints/remember.ts';
import { listInstalled } from '../endpoints/installed.ts';
import { type Watched } from '../health/watched.ts';
import { type HealthView } from '../health/usable.ts';
import { type ReconcileState } from '../observe/reconcile-state.ts';
import { neededChains } from '../observe/needed-chains.ts';
import { type AskProxyAbsence } from '../observe/proxy-absence.ts';
import { interpret, type Observation } from '../observe/observe.ts';
import { requirePassage } from '../observe/require-passage.ts';
import { type Plan } from '../../lib/netfilter/plan/table-plan.ts';

/** What a look needs of the world. */
export interface LookPorts {
  readonly kernel: Kernel;
  /** Asks kube-proxy itself, see agent/observe/proxy-mode.ts. */
  readonly askProxyMode: () => Promise<string | null>;
  /** Asked where `--endpoints` names apiservers, too; left out where that is not to be known: then kube-proxy maintains its rules. */
  readonly askProxyAbsence?: AskProxyAbsence | undefined;
  readonly health: HealthSource;
  readonly api: ClusterApi;
  /** What open connections say of new ones, see weights.ts; left out where nobody counts. */
  readonly weights?: () => ReconcileInput['weights'];
}

/** Where a look gets the health of apiservers from, see agent/health/. */
export interface HealthSource {
  /** Told of all apiservers that a look finds; answers their health. Never rejects. */
  watch(watched: Watched): HealthView | Promise<HealthView>;
  /** Apiservers that were removed on purpose, as text; none when left out. */
  readonly removed?: ReadonlySet<string>;
  /** Unlisted apiservers that have open connections, as text; null, or left out, where nobody has counted. */
  readonly open?: ReadonlySet<string> | null;
}

/** All of the kernel: leftovers may be in any dialect and family. What of it is needed is another matter, see unread.ts. */
export const everything: KernelQuery = { families, dialects: iptablesDialects, nftServiceChain };

/** The same, without what hosts have many of: what no assessment rests on. */
const whatMatters: KernelQuery = { ...everything, chains: neededChains };

/**
 * Reads what matters, or what the query names, and assesses it. Writes nothing.
 * @throws VipnatError when a part that is needed cannot be read or understood (I1).
 */
export async function observeAndAssess(
  ports: LookPorts,
  config: Config,
  memory: ReconcileState,
  query: KernelQuery = whatMatters,
): Promise<Assessment> {
  const before = forgetRemoved(memory, ports.health.removed ?? new Set());
  const known = await learn(ports, config, before, query);
  const health = await ports.health.watch(listWatched(known, config));
  return assess({ ...known, health, weights: ports.weights?.(), open: ports.health.open }, config);
}

/** All that is assessed but for health. */
export type Known = Omit<ReconcileInput, 'health'>;

/** What the kernel shows and the API says. */
async function learn(
  { kernel, askProxyMode, askProxyAbsence, api }: LookPorts,
  config: Config,
  memory: ReconcileState,
  query: KernelQuery,
): Promise<Known> {
  const [reading, localRoutes, asked] = await Promise.all([
    kernel.read(query),
    readLocalRoutes(kernel),
    config.proxyMode === 'auto' ? askProxyMode() : null,
  ]);
  const isAsked = config.proxyMode === 'auto' && config.endpoints.length > 0;
  const isProxyAbsent = isAsked && (await askProxyAbsence?.(asked)) === true;
  const observe = (view: ApiView | null) => ({
    ...interpret(reading, asked, addClusterIps(config, view), memory.dialect),
    isProxyAbsent,
  });
  const known = await consultApi({ api, localRoutes, observe }, config, memory);
  await requirePassage(kernel, known.observation, config);
  return known;
}

/**
 * What is known without a reading of rules: what the API and the configuration say, and what `before` and the memory have. This host's addresses are
 * those of now, if they can be read. `before` is the last observation; null where there was none.
 * @throws VipnatError when vipnat cannot be told apart what to do by the configuration alone.
 */
export async function learnWithoutRules(
  { kernel, api }: Pick<LookPorts, 'kernel' | 'api'>,
  config: Config,
  memory: ReconcileState,
  before: Observation | null,
): Promise<Known> {
  const localRoutes = await readLocalRoutes(kernel);
  const observation = before ?? interpret(nothingRead, null, config);
  const addresses = localRoutes?.addresses ?? observation.addresses;
  const observe = () => ({ ...observation, addresses });
  return await consultApi({ api, localRoutes, observe }, config, memory);
}

const nothingRead: KernelReading = {
  ...{ iptables: [], nftTables: [], nftProxies: [], unread: [] },
  ...{ addresses: [], ipvs: null, forwarding: { ipv4: null, ipv6: null }, advertised: [] },
};

interface Consultation extends Pick<Known, 'localRoutes'>, Pick<LookPorts, 'api'> {
  /** By what the API says: it names the Service's ClusterIPs. */
  readonly observe: (view: ApiView | null) => Observation;
}

async function consultApi(
  { api, localRoutes, observe }: Consultation,
  config: Config,
  memory: ReconcileState,
): Promise<Known> {
  const add = (observation: Observation, before: ReconcileState) =>
    addCandidates({ observation, localRoutes }, before, config);
  const first = add(observe(memory.api), memory);
  const { endpoints, own, localAddresses } = listWatched(first, config);
  const view = await api.getView({
    endpoints: sortEndpoints([...endpoints, ...config.endpoints]),
    localAddresses,
    ...(own === undefined ? {} : { own }),
  });
  if (view === null) return first;
  const isSame = JSON.stringify(view.clusterIps) === JSON.stringify(memory.api?.clusterIps ?? {});
  return add(isSame ? first.observation : observe(view), { ...memory, api: view });
}

/** Rules do not depend on them: they are looked at by whoever keeps them, see local-clients.ts. */
async function readLocalRoutes(kernel: Kernel): Promise<LocalRoutes | null> {
  return await kernel.readLocalRoutes().catch((error: unknown) => {
    if (error instanceof VipnatError) return null;
    throw error;
  });
}

function addCandidates(
  { observation, localRoutes }: Pick<Known, 'observation' | 'localRoutes'>,
  before: ReconcileState,
  config: Config,
): Known {
  const memory = forgetService(before, observation);
  return { observation, localRoutes, candidates: findCandidates(observation, memory, config), memory };
}

/** `--cluster-ip` is for where it cannot be read. */
function addClusterIps(config: Config, view: ApiView | null): Config {
  return { ...config, clusterIps: { ...view?.clusterIps, ...config.clusterIps } };
}

/** The apiservers to watch, by what is known. Pure. */
export function listWatched({ observation, candidates }: Known, config: Config): Watched {
  const found = candidates.map((one) => one.candidates);
  return {
    endpoints: sortEndpoints(found.flatMap(({ value }) => value)),
    fallbackEndpoints: sortEndpoints(found.flatMap(({ fallbackEndpoints }) => fallbackEndpoints)),
    own: sortEndpoints(found.flatMap(({ own }) => own ?? [])),
    live: sortEndpoints(found.flatMap(({ isLive, value }) => (isLive ? value : []))),
    localAddresses: new Set(observation.addresses.map(({ address }) => address)),
    inUse: families.flatMap((family) => listInstalled(family, observation, config.vips)),
  };
}

/** Where the next write will most likely be. */
export function listWritten({ observation, decisions }: Assessment): WritePlace[] {
  const used = families.filter((family) => decisions.some(({ vip }) => vip.family === family));
  return used.map((family) => ({ family, dialect: observation.dialect.value }));
}

/** Writes a plan, one transaction after the other; the first that fails ends it. */
export async function applyPlan(kernel: Kernel, { transactions }: Plan): Promise<void> {
  for (const transaction of transactions) await kernel.apply(transaction);
}
