import {
  type Kernel,
  type KernelQuery,
  iptablesDialects,
  type KernelReading,
  type LocalRoutes,
  type WritePlace,
  nameUnread,
} from '../lib/kernel/port.ts';
import type { AskProxyAbsence } from './observe/kube-proxy.ts';
import type { ClusterApi, ApiView } from './api.ts';
import { type Watched, type HealthView, chooseUsable } from './health/usable.ts';
import { families, sortEndpoints, formatEndpoint, type Endpoint, type Family, isAtVip } from '../lib/net.ts';
import { nftServiceChain, type IptablesProxyView } from '../lib/kube-proxy/read.ts';
import { neededChains, interpret, requirePassage, type Observation } from './observe/observe.ts';
import type { Config } from '../config/options.ts';
import {
  type ReconcileState,
  type Assessment,
  type VipCandidates,
  type Candidates,
  renderingKey,
  type VipFacts,
  type VipState,
  type ProxyPath,
  type Decision,
} from './decide/decision.ts';
import { forgetRemoved, forgetService, rememberApiservers } from './state.ts';
import { orElse } from '../lib/errors.ts';
import {
  findCandidates,
  listInstalled,
  rememberAffinity,
  findInstalled,
  listAnswering,
} from './endpoints.ts';
import type { Weights, Balance } from '../lib/dialect.ts';
import { decide, isAgreeing, listAnswerers, modeToEntry } from './decide/mode.ts';
import { plan } from './decide/plan.ts';
import { findMissingSwitches } from './forwarding.ts';
import { planSourceRoutes, findSources } from './local-clients.ts';
import { fitWeights } from './weights.ts';
import type { Sourced } from '../lib/text.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import { endVerdict } from './health/judge.ts';

/** The dependencies of a sync. */
export interface HostPorts {
  readonly kernel: Kernel;
  /** Asks kube-proxy itself, see agent/observe/kube-proxy.ts. */
  readonly askProxyMode: () => Promise<string | null>;
  /** Asked where `--endpoints` names apiservers, too; left out where that is not to be known: then kube-proxy maintains its rules. */
  readonly askProxyAbsence?: AskProxyAbsence | undefined;
  readonly health: HealthSource;
  readonly api: ClusterApi;
  /** What open connections say of new ones, see weights.ts; left out where nobody counts. */
  readonly weights?: () => ReconcileInput['weights'];
}

/** Where a sync gets the health of apiservers from, see agent/health/. */
interface HealthSource {
  /** Called with all apiservers that a sync finds; answers their health. Never rejects. */
  watch(watched: Watched): HealthView | Promise<HealthView>;
  /** Apiservers that were removed on purpose, as text; none when left out. */
  readonly removed?: ReadonlySet<string>;
  /** Unlisted apiservers that have open connections, as text; null, or left out, where nobody has counted. */
  readonly open?: ReadonlySet<string> | null;
}

/** All of the kernel: leftovers may be in any dialect and family. What of it is needed is another matter, see listNeeded. */
export const everything: KernelQuery = { families, dialects: iptablesDialects, nftServiceChain };

/** The same, without what hosts have many of: what no assessment rests on. */
const whatMatters: KernelQuery = { ...everything, chains: neededChains };

/**
 * Reads what matters, or what the query names, and assesses it. Writes nothing.
 * @throws VipnatError when a part that is needed cannot be read or understood (I1).
 */
export async function observeAndAssess(
  ports: HostPorts,
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
  { kernel, askProxyMode, askProxyAbsence, api }: HostPorts,
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
  const observe = (view: ApiView | null) => {
    // `--cluster-ip` is for where it cannot be read.
    const clusterIps = { ...view?.clusterIps, ...config.clusterIps };
    return { ...interpret(reading, asked, { ...config, clusterIps }, memory.dialect), isProxyAbsent };
  };
  const known = await consultApi({ api, localRoutes, observe }, config, memory);
  await requirePassage(kernel, known.observation, config);
  return known;
}

/**
 * What is known without a reading of rules: what the API and the configuration say, and what `before` and the memory have. This host's addresses are
 * those of now, if they can be read. `before` is the last observation; null where there was none.
 * @throws VipnatError when the configuration alone does not say what vipnat is to do.
 */
export async function learnWithoutRules(
  { kernel, api }: Pick<HostPorts, 'kernel' | 'api'>,
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

interface Consultation extends Pick<Known, 'localRoutes'>, Pick<HostPorts, 'api'> {
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

/** Rules do not depend on them: their keepers read them, see local-clients.ts. */
async function readLocalRoutes(kernel: Kernel): Promise<LocalRoutes | null> {
  return await orElse(kernel.readLocalRoutes(), null);
}

function addCandidates(
  { observation, localRoutes }: Pick<Known, 'observation' | 'localRoutes'>,
  before: ReconcileState,
  config: Config,
): Known {
  const memory = forgetService(before, observation);
  return { observation, localRoutes, candidates: findCandidates(observation, memory, config), memory };
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

/** What an assessment rests on. */
export interface ReconcileInput extends Pick<
  Assessment,
  'observation' | 'localRoutes' | 'candidates' | 'health' | 'memory'
> {
  /** With the method `lc`, VIP texts to what was counted: null for equal weights. VIPs of which nothing is known yet are left out. */
  readonly weights?: ReadonlyMap<string, Weights | null> | undefined;
  /** See HealthSource. */
  readonly open?: ReadonlySet<string> | null | undefined;
}

/** From what was seen to what to write. Pure: all commands and the loop use it, so what is shown is done. */
export function assess(input: ReconcileInput, config: Config): Assessment {
  const { observation, localRoutes, candidates, health, memory } = input;
  // Once for all VIPs: without another source, the rules of all of them are read for it.
  const affinity = rememberAffinity(observation, config.vips, memory);
  const facts = candidates.map((one) => gatherFacts(one, { ...input, affinity }, config));
  const decisions = facts.map(decide);
  const balances = toBalances(decisions, input, config);
  const names = nameUnread(observation.unread);
  return {
    observation,
    candidates,
    decisions,
    answerers: new Map(balances.map(({ vip, apiservers = [] }) => [formatEndpoint(vip), apiservers])),
    plan: plan(
      { dialect: observation.dialect.value, balances },
      [...observation.rulesets, ...observation.nftRulesets],
      (dialect, id, printed) => memory.renderings.get(renderingKey(dialect, id)) === printed,
    ),
    missingSwitches: findMissingSwitches(observation, config, localRoutes),
    localRoutes,
    sourceRoutes: localRoutes === null ? [] : planSourceRoutes(localRoutes, config),
    sources: localRoutes === null ? new Map() : findSources(localRoutes, config.vips),
    health,
    refused: [...candidates.flatMap((one) => one.candidates.refused), ...(memory.api?.refused ?? [])],
    memory: {
      ...memory,
      ...rememberApiservers({ observation, config, memory }),
      dialect: observation.dialect.value,
      unread: { names, isNew: names !== '' && names !== memory.unread.names },
      affinity,
      vips: new Map(
        decisions.map(({ vip, isBypass }, index) => [
          formatEndpoint(vip),
          { isBypass, agreedSyncs: facts[index]?.agreedSyncs ?? 0 },
        ]),
      ),
    },
  };
}

function gatherFacts(
  { vip, candidates }: VipCandidates,
  input: ReconcileInput & Pick<ReconcileState, 'affinity'>,
  config: Config,
): VipFacts {
  const { observation, health, memory, affinity } = input;
  const { proxyMode, views } = observation;
  const { ipvs } = views[vip.family];
  const iptables = findView(vip, observation);
  const usable = chooseUsable(candidates, health);
  const isUntried = usable.value.some((one) => health.get(formatEndpoint(one))?.isUntried === true);
  const before = memory.vips.get(formatEndpoint(vip)) ?? beginVip(vip, observation, isUntried);
  const { mode, method } = config;
  const facts = {
    ...{ vip, mode, proxyMode },
    ...{ method, weights: method === 'lc' ? findWeights(vip, usable.value, input) : undefined },
    closedSwitch: findClosedSwitch(vip.family, input, config),
    ...findServiceChain(iptables, observation, config.vips),
    virtualServer: toPath(ipvs.server, ipvs.server?.value.backends, config.vips),
    virtualServerProblem: ipvs.reason,
    unwanted: iptables?.unwanted ?? null,
    usable,
    isListLonger: candidates.isFromApi && candidates.value.length > usable.value.length,
    affinitySeconds: affinity[vip.family] ?? null,
    ...nameSources(candidates),
  };
  return {
    ...facts,
    // To agree with what no probe has shown yet ends no bypass.
    agreedSyncs: isAgreeing(facts) ? (isUntried ? 0 : before.agreedSyncs) + 1 : 0,
    wasBypassing: before.isBypass,
  };
}

function nameSources({ isFromApi, isLive, seenIn }: Candidates): Pick<VipFacts, 'apiSource' | 'source'> {
  return {
    apiSource: isFromApi ? seenIn : null,
    source: isLive ? null : seenIn.replace(/^last seen in/, 'memory: last seen in'),
  };
}

/** As the agent has counted; else as rules have it, by which any process decides as the last agent did. */
function findWeights(vip: Endpoint, usable: readonly Endpoint[], { observation, weights }: ReconcileInput) {
  const counted = weights?.get(formatEndpoint(vip));
  const known = counted === undefined ? findInstalled(vip, observation)?.weights : (counted ?? undefined);
  return known === undefined ? undefined : fitWeights(known, usable);
}

/** The process before may have left kube-proxy's chain for a reason that only probes can show: its rules count until then. */
function beginVip(vip: Endpoint, observation: Observation, isUntried: boolean): VipState {
  return { agreedSyncs: 0, isBypass: isUntried && findInstalled(vip, observation) !== null };
}

/** What can be switched on is as good as on: that is done before any rule is written. */
function findClosedSwitch(
  family: Family,
  { observation, localRoutes, memory }: Pick<ReconcileInput, 'observation' | 'localRoutes' | 'memory'>,
  config: Config,
): string | null {
  const closed = findMissingSwitches(observation, config, localRoutes).find((one) => one.family === family);
  if (closed === undefined) return null;
  return config.sysctls === 'set' && !memory.unforwardable.has(family) ? null : closed.name;
}

/** Software that removes kube-proxy removes its hooks first: a jump of vipnat's would keep its chains from going (I11). */
function findServiceChain(
  view: IptablesProxyView | undefined,
  { dialect }: Observation,
  vips: readonly Endpoint[],
): Pick<VipFacts, 'serviceChain' | 'serviceChainProblem'> {
  if (dialect.value === 'nftables') {
    const cause = `vipnat writes its rules with nft (${dialect.seenIn}), and a table of nftables cannot jump to kube-proxy's chains`;
    return { serviceChain: null, serviceChainProblem: cause };
  }
  const path = toPath(view?.entryRule, view?.backends?.value, vips);
  if (path === null || view?.isHooked === true) return { serviceChain: path, serviceChainProblem: null };
  const problem = "packets do not reach kube-proxy's rules: nat PREROUTING has no jump to KUBE-SERVICES";
  return { serviceChain: null, serviceChainProblem: problem };
}

/** kube-proxy's part in the backend that vipnat writes to. */
function findView(vip: Endpoint, { views, dialect }: Observation): IptablesProxyView | undefined {
  return views[vip.family].iptables.find((seen) => seen.dialect === dialect.value)?.view;
}

function toPath(
  entry: Sourced<{ readonly clusterIp: string }> | null | undefined,
  backends: readonly Endpoint[] | undefined,
  vips: readonly Endpoint[],
): ProxyPath | null {
  if (entry === null || entry === undefined || backends === undefined) return null;
  const loop = backends.find((endpoint) => isAtVip(endpoint, vips)) ?? null;
  return { clusterIp: entry.value.clusterIp, backends, loop, seenIn: entry.seenIn };
}

function toBalances(
  decisions: readonly Decision[],
  { observation, candidates, open = null }: ReconcileInput,
  config: Config,
): Balance[] {
  // Once for all VIPs: reading rules back takes time.
  const installed = { ipv4: listAnswering('ipv4', observation), ipv6: listAnswering('ipv6', observation) };
  return decisions.map((decision, index) => {
    const listed = candidates[index]?.candidates.value ?? [];
    const known = { decision, candidates: listed, installed: installed[decision.vip.family] };
    return { ...toBalance(decision, observation, config), apiservers: listAnswerers(known, open, config) };
  });
}

/** A decision as something that can be rendered. kube-proxy's mark is used only while it is really set there. */
function toBalance(decision: Decision, observation: Observation, config: Config): Balance {
  const view = findView(decision.vip, observation);
  const canMark =
    view !== undefined && view.masqueradeMark !== null && view.unwanted === null && view.isHooked;
  return {
    vip: decision.vip,
    route: modeToEntry[decision.mode].toRoute(decision),
    masquerade: config.masquerade === 'kube-mark' && !canMark ? 'own' : config.masquerade,
  };
}

/** Whether another sync soon may end a bypass, or read what just became unreadable. */
export function isUndecided({ memory }: Pick<Assessment, 'memory'>): boolean {
  return (
    memory.unread.isNew ||
    [...memory.vips.values()].some(({ isBypass, agreedSyncs }) => isBypass && agreedSyncs > 0)
  );
}

/**
 * What would be decided if an apiserver's process ended, decided in advance: for each that is ready, from the last sync that found all in sync.
 *
 * Goal: a write begins a moment after an end was seen.
 * Tension: on a busy machine a decision takes milliseconds, most of all one that is rare. What was decided in advance may be outdated.
 * Compromise: a decision depends on its input alone. So it counts for exactly the input that it was made for. One is made at a time, and probes are
 * read in between: with 20,000 rules a decision takes 50 ms.
 */
export class Foresight {
  readonly #config: Config;
  readonly #clock: Clock;
  #input: ReconcileInput | null = null;
  readonly #keyToAssessment = new Map<string, Assessment>();

  constructor(config: Config, clock: Clock) {
    this.#config = config;
    this.#clock = clock;
  }

  /** Decides ahead, in place of what was decided before. Takes as long as so many decisions. It ends early where another one begins, or by `forget`. */
  async foresee(input: ReconcileInput): Promise<void> {
    this.forget();
    this.#input = input;
    for (const health of listEnds(input.health)) {
      await sleep(this.#clock, 0);
      if (this.#input !== input) return;
      const ended = { ...input, health };
      this.#keyToAssessment.set(describeInput(ended), assess(ended, this.#config));
    }
  }

  forget(): void {
    this.#input = null;
    this.#keyToAssessment.clear();
  }

  /** What `assess` would answer, if that was decided ahead; else null. */
  find(input: ReconcileInput): Assessment | null {
    const { observation, localRoutes, candidates, memory } = input;
    const before = this.#input;
    const isSame =
      before !== null &&
      before.observation === observation &&
      before.localRoutes === localRoutes &&
      before.candidates === candidates &&
      before.memory === memory;
    return isSame ? (this.#keyToAssessment.get(describeInput(input)) ?? null) : null;
  }
}

/** The health of all after the end of one. */
function listEnds(health: HealthView): HealthView[] {
  return [...health].flatMap(([text, one]) =>
    one.state === 'ready' ? [new Map([...health, [text, { ...one, ...endVerdict }]])] : [],
  );
}

/** Another text for another input, of what is made again for each. */
function describeInput({ health, weights, open }: ReconcileInput): string {
  const shares = [...(weights ?? [])].map(([vip, byApiserver]) => [vip, byApiserver && [...byApiserver]]);
  return JSON.stringify([[...health], shares, weights === undefined, open && [...open]]);
}
