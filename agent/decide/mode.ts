import {
  type Assessment,
  type Decision,
  type VipFacts,
  type ProxyPath,
  countApiservers,
} from './decision.ts';
import type { Config, BalancingMode, ProxyMode } from '../../config/options.ts';
import { plan } from './plan.ts';
import type { Sourced } from '../../lib/text.ts';
import type { Dialect, LocalAddress } from '../../lib/kernel/port.ts';
import {
  type Family,
  formatEndpoint,
  type Endpoint,
  sortEndpoints,
  parseEndpoint,
  areSameEndpoints,
} from '../../lib/net.ts';
import type { Ruleset } from '../../lib/iptables/rules.ts';
import type { NftRuleset } from '../../lib/nft/table.ts';
import { admit, maxEndpoints } from '../endpoints.ts';
import type { HealthView, Health, Usable } from '../health/usable.ts';
import { type Route, weighWith } from '../../lib/dialect.ts';
import type { FoundProxyMode } from '../observe/kube-proxy.ts';
import { serviceChain, kubernetesService } from '../../lib/kube-proxy/read.ts';

/** The part of an assessment that a plan is printed from. */
export type PlannedState = Pick<
  Assessment,
  'decisions' | 'plan' | 'missingSwitches' | 'sourceRoutes' | 'sources' | 'refused'
> & {
  readonly observation: Pick<Assessment['observation'], 'addresses' | 'dialect' | 'proxyMode' | 'unread'>;
};

/**
 * What would be written on a host without any rules of vipnat's on which kube-proxy runs as the configuration says.
 * Reads nothing; `--proxy-mode` is not `auto` here, and what the mode needs was given.
 */
export function planOffline(config: Config): PlannedState {
  const decisions = config.vips.map((vip): Decision => {
    const mode = chooseOfflineMode(config);
    return {
      vip,
      mode,
      reason: `vipnat read nothing (--offline), and assumes --proxy-mode ${config.proxyMode}`,
      isBypass: false,
      affinitySeconds: null,
      method: config.method,
      clusterIp: config.clusterIps[vip.family] ?? null,
      backends: config.endpoints.filter(({ family }) => family === vip.family),
    };
  });
  const dialect = chooseBackend(config);
  const families = [...new Set(config.vips.map(({ family }) => family))].sort();
  const balances = decisions.map((decision) => ({
    vip: decision.vip,
    route: modeToEntry[decision.mode].toRoute(decision),
    masquerade: config.masquerade,
    apiservers: decision.backends,
  }));
  const proxyMode = config.proxyMode === 'auto' ? 'none' : config.proxyMode;
  return {
    decisions,
    missingSwitches: [],
    sourceRoutes: [],
    sources: new Map(),
    refused: [],
    plan: plan(
      { dialect: dialect.value, balances },
      families.map((family) => emptyRuleset(family, dialect.value)),
    ),
    observation: {
      addresses: [],
      dialect,
      proxyMode: { value: proxyMode, seenIn: '--proxy-mode' },
      unread: [],
    },
  };
}

/** The first mode that is possible by the options: nothing is read, so nothing speaks against it. */
export function chooseOfflineMode(config: ModeOptions): BalancingMode {
  const [first = 'passthrough'] = listEligible(config);
  return first;
}

function chooseBackend({ iptables, proxyMode }: Config): Sourced<Dialect> {
  if (iptables === 'none') return { value: 'nftables', seenIn: '--iptables none' };
  if (iptables !== 'auto') return { value: iptables, seenIn: '--iptables' };
  return proxyMode === 'nftables'
    ? { value: 'nftables', seenIn: '--proxy-mode nftables' }
    : { value: 'nft', seenIn: 'the default' };
}

function emptyRuleset(family: Family, dialect: Dialect): Ruleset | NftRuleset {
  if (dialect === 'nftables') return { family, dialect, table: null };
  return { family, dialect, tables: new Map(), forwardPolicy: null, unread: [] };
}

/** `service-chain`, `direct to 10.0.0.11:6443, 10.0.0.12:6443`, `passthrough`: what changed when this text did. */
export function describeMode(decision: Decision): string {
  return modeToEntry[decision.mode].name(decision);
}

/** The modes of all VIPs, and whoever may answer: another text asks for other rules. */
export function describeWanted(assessment: Pick<Assessment, 'decisions' | 'answerers'>): string {
  const { decisions, answerers } = assessment;
  const apiservers = [...answerers.values()].map((endpoints) => endpoints.map(formatEndpoint).join());
  return [...decisions.map(describeMode), ...apiservers].join(';');
}

interface AnswererBasis {
  readonly decision: Pick<Decision, 'vip' | 'backends'>;
  /** The listed apiservers. */
  readonly candidates: readonly Endpoint[];
  /** Those of the VIP's family that vipnat's rules name, see listAnswering. */
  readonly installed: readonly Endpoint[];
}

/**
 * Whoever may answer connections to a VIP. Those who get new connections and all listed ones, as they may have open ones. Of those who
 * left the list, as vipnat's rules name them: whoever has open connections, and all where nobody has counted. Pure.
 */
export function listAnswerers(
  { decision: { vip, backends }, candidates, installed }: AnswererBasis,
  open: ReadonlySet<string> | null,
  { vips }: Pick<Config, 'vips'>,
): readonly Endpoint[] {
  const known = sortEndpoints([...backends, ...candidates]);
  const texts = new Set(known.map(formatEndpoint));
  const { admitted } = admit({ value: installed, seenIn: "vipnat's own rules" }, vip.family, vips);
  const departed = admitted
    .map((one) => ({ one, text: formatEndpoint(one) }))
    .filter(({ text }) => !texts.has(text) && open?.has(text) !== false)
    .map(({ one }) => one);
  return sortEndpoints([...known, ...departed.slice(0, Math.max(0, maxEndpoints - known.length))]);
}

interface ServingBasis {
  readonly decisions: readonly Pick<Decision, 'vip' | 'backends'>[];
  readonly addresses: readonly LocalAddress[];
  readonly health: HealthView;
  /** Whether this host is drained, and another node is to hold the virtual IPs, if one can. False when left out. */
  readonly isLeaving?: boolean;
  /** Whether this host itself accepts connections to a VIP that it answers in mode passthrough. */
  readonly isListening: (vip: Endpoint) => boolean;
}

/**
 * Whether this node may hold the virtual IPs: it serves one of them, balanced or by its own apiserver that
 * listens on the VIP's port, or no other node is known to do better. A dead apiserver among live ones changes nothing; when all refuse connections, moving
 * would only add to it. Pure.
 */
export function canServe(basis: ServingBasis): boolean {
  const { decisions, addresses, health, isListening, isLeaving = false } = basis;
  const local = new Set(addresses.map(({ address }) => address));
  const facts = { local, health, isListening };
  if (isLeaving && decisions.length > 0 && decisions.every(({ vip }) => canLeave(vip, facts))) return false;
  return decisions.length === 0 || decisions.some((decision) => canServeVip(decision, facts));
}

interface Facts extends Pick<ServingBasis, 'health' | 'isListening'> {
  /** This host's addresses. */
  readonly local: ReadonlySet<string>;
}

function canServeVip(
  { vip, backends }: Pick<Decision, 'vip' | 'backends'>,
  { local, health, isListening }: Facts,
): boolean {
  const isAlive = (endpoint: Endpoint) => {
    const {
      state = 'ready',
      staleConnections = 'none',
      isLost = false,
    } = health.get(formatEndpoint(endpoint)) ?? {};
    // A short time without answers moves no VIP: a bond that fails over keeps keepalived's adverts from the others, too.
    return !isLost && (state !== 'dead' || staleConnections === 'half-open');
  };
  if (backends.some(isAlive)) return true;
  const probed = listProbed(vip, health);
  const isLocal = ({ endpoint }: (typeof probed)[number]) => local.has(endpoint.address);
  // Balanced connections reach a backend by its own port; in mode passthrough, this host must listen on the VIP's port.
  const canAnswer = backends.length > 0 || isListening(vip);
  if (canAnswer && probed.some((one) => isLocal(one) && isAlive(one.endpoint))) return true;
  return !probed.some((one) => !isLocal(one) && mayServeOthers(one.health));
}

/** Whether an apiserver on another host takes new connections: one that is drained too would give the VIP back. */
function canLeave({ family }: Pick<Endpoint, 'family'>, { local, health }: Facts): boolean {
  return listProbed({ family }, health).some(
    ({ endpoint, health: { state, isUnresponsive = false } }) =>
      !local.has(endpoint.address) && !isUnresponsive && (state === 'ready' || state === 'warming'),
  );
}

/** A refusal is the same for every node; an apiserver that does not answer may be unreachable for this node only. */
function mayServeOthers({ state, staleConnections }: Health): boolean {
  return state !== 'dead' || staleConnections !== 'none';
}

function listProbed({ family }: Pick<Endpoint, 'family'>, view: HealthView) {
  return [...view].flatMap(([text, health]) => {
    const endpoint = parseEndpoint(text);
    return endpoint?.family === family ? [{ endpoint, health }] : [];
  });
}

/** A VIP's mode: the first possible one of the table, or the configured one, else passthrough. Pure (I3). */
export function decide(facts: VipFacts): Decision {
  const { mode, method = 'random', proxyMode, closedSwitch } = facts;
  if (closedSwitch !== null) return leave(facts, `IP forwarding is off (${closedSwitch} is 0)`);
  let reason = '';
  for (const candidate of listEligible({ mode, method, proxyMode: proxyMode.value })) {
    const choice = modeToEntry[candidate].choose?.(facts) ?? { refusal: reason };
    if (!('refusal' in choice)) return toDecision(facts, candidate, choice);
    reason = choice.refusal;
  }
  return leave(facts, reason);
}

function leave(facts: VipFacts, reason: string): Decision {
  return toDecision(facts, 'passthrough', { reason, backends: [] });
}

function toDecision(
  { vip, usable, serviceChain, virtualServer, affinitySeconds }: VipFacts,
  mode: BalancingMode,
  choice: Choice,
): Decision {
  const clusterIp = (serviceChain ?? virtualServer)?.clusterIp ?? null;
  return { vip, mode, isBypass: false, clusterIp, affinitySeconds, backends: usable.value, ...choice };
}

/** That a mode is taken, and what is decided by that. What is left out is as for any mode. */
type Choice = Pick<Decision, 'reason'> &
  Partial<Pick<Decision, 'isBypass' | 'clusterIp' | 'backends' | 'method' | 'weights'>>;

interface Refusal {
  /** One sentence for a person, without the VIP. */
  readonly refusal: string;
}

/** By kube-proxy's path: while its backends are the usable ones, or whatever they are where that is asked for. Pure. */
function followPath(facts: VipFacts, mode: BalancingMode, path: ProxyPath | null): Choice | Refusal {
  if (facts.mode === mode) return force(mode, path);
  if (path === null || facts.usable.value.length === 0 || findObstacle(facts) !== null)
    return { refusal: 'kube-proxy has no rules that lead to the usable apiservers' };
  return { reason: nameSource(facts, describePath(path)), clusterIp: path.clusterIp };
}

/** Straight to the usable apiservers: wherever any is known, for whatever keeps others from kube-proxy's path. Pure. */
function goDirect(facts: VipFacts): Choice | Refusal {
  const { mode, method = 'random', usable, weights } = facts;
  if (usable.value.length === 0) return { refusal: `no apiserver is known (${usable.seenIn})` };
  const obstacle = mode === 'direct' || method !== 'random' ? null : findObstacle(facts);
  const asked = method === 'random' ? '--mode direct is set' : `--method ${method} is set`;
  const reason = nameSource(facts, nameSubstitute(facts, obstacle?.reason ?? asked));
  return { reason, isBypass: obstacle?.isBypass ?? false, method, weights };
}

/** A forced mode is that mode or passthrough. */
function force(mode: BalancingMode, path: ProxyPath | null): Choice | Refusal {
  if (path === null || path.backends.length === 0)
    return { refusal: `--mode ${mode} is set, but kube-proxy has no active rules for it` };
  const { loop = null, clusterIp, backends } = path;
  if (loop !== null) {
    const where = `${formatEndpoint(loop)}, the address of a virtual IP`;
    return { refusal: `--mode ${mode} is set, but kube-proxy's rules lead to ${where}` };
  }
  return { reason: `--mode ${mode} is set, and ${describePath(path)}`, clusterIp, backends };
}

/** Adds to the reason that an unlisted apiserver serves. */
function nameSubstitute({ usable }: VipFacts, reason: string): string {
  if (usable.isSubstitute !== true || reason.includes(usable.seenIn)) return reason;
  return `${reason}; ${describeUsable(usable)}`;
}

/** From where apiservers are known belongs into the reason, where that is not kube-proxy's path. */
function nameSource({ apiSource, source = null }: VipFacts, reason: string): string {
  if (apiSource !== null && !reason.includes(apiSource)) return `${reason}; listed in ${apiSource}`;
  return source === null || reason.includes(source) ? reason : `${reason}; apiservers from ${source}`;
}

/** Why kube-proxy's path is not followed. */
type Obstacle = Pick<Decision, 'reason' | 'isBypass'>;

/** The bypass ends after so many equal syncs, so that kube-proxy in the middle of its own changes cannot make vipnat flap. */
const syncsToLeaveBypass = 2;

/** What keeps a VIP from the path that kube-proxy offers in its mode; null where it can be followed. Pure and total. */
function findObstacle(facts: VipFacts): Obstacle | null {
  const { proxyMode, unwanted, usable, isListLonger, wasBypassing, agreedSyncs } = facts;
  const { value, seenIn, isFailOpen } = usable;
  if (isFailOpen)
    return bypass(`no apiserver answers this node's probes, so all ${value.length} stay in use (${seenIn})`);
  if (proxyMode.value !== 'iptables' && proxyMode.value !== 'ipvs')
    return avoid(describeOtherMode(proxyMode));
  if (unwanted !== null) return avoid(`kube-proxy wants to delete its chain (${unwanted.seenIn})`);
  const path = findPath(facts);
  if (path === null) return avoid(describeMissingPath(facts));
  if (!areSameEndpoints(path.backends, usable.value)) return bypass(describeDisagreement(path, usable));
  if (isListLonger === true)
    return bypass(`kube-proxy is about to follow the API's list, and ${describeUsable(usable)}`);
  return wasBypassing && agreedSyncs < syncsToLeaveBypass
    ? bypass("kube-proxy's list has matched the usable apiservers for only one sync")
    : null;
}

/** Whether kube-proxy's own backends are the usable ones; false where it offers no path in its mode. */
export function isAgreeing(facts: Omit<VipFacts, 'agreedSyncs' | 'wasBypassing'>): boolean {
  const path = findPath(facts);
  return path !== null && areSameEndpoints(path.backends, facts.usable.value);
}

/** `kube-proxy sends 10.96.0.1 to the same 3 apiservers (nat KUBE-SERVICES)` */
function describePath({ seenIn, clusterIp, backends }: ProxyPath): string {
  return `kube-proxy sends ${clusterIp} to the same ${countApiservers(backends.length)} (${seenIn})`;
}

/** `2 apiservers are usable (10.0.0.13:6443 is dead)` */
function describeUsable({ value, seenIn }: Usable): string {
  return `${countApiservers(value.length)} ${value.length === 1 ? 'is' : 'are'} usable (${seenIn})`;
}

function findPath(facts: Pick<VipFacts, 'proxyMode' | 'serviceChain' | 'virtualServer'>): ProxyPath | null {
  return facts.proxyMode.value === 'ipvs' ? facts.virtualServer : facts.serviceChain;
}

const avoid = (reason: string): Obstacle => ({ reason, isBypass: false });
const bypass = (reason: string): Obstacle => ({ reason, isBypass: true });

function describeMissingPath({ proxyMode, serviceChainProblem, virtualServerProblem }: VipFacts): string {
  const problem = proxyMode.value === 'ipvs' ? virtualServerProblem : serviceChainProblem;
  return problem ?? 'kube-proxy has no active rules for default/kubernetes';
}

function describeDisagreement(path: ProxyPath, usable: Usable): string {
  return `kube-proxy's list is out of date: it names ${countApiservers(path.backends.length)} (${path.seenIn}), and ${describeUsable(usable)}`;
}

function describeOtherMode({ value, seenIn }: Sourced<FoundProxyMode>): string {
  return value === 'none'
    ? `this host runs no kube-proxy (${seenIn})`
    : `kube-proxy runs in proxy mode ${value} (${seenIn}), and vipnat's rules cannot jump to its chains`;
}

/** What one mode is: when it is taken, which rules it needs, and what people read of it. */
export interface ModeEntry {
  /** Its choice for a VIP, or why it is not possible there; null for the mode that remains then. Pure and total. */
  readonly choose: ((facts: VipFacts) => Choice | Refusal) | null;
  /** The proxy mode whose path it follows: in other proxy modes it has to be configured. Null for a mode that needs no kube-proxy. */
  readonly follows: ProxyMode | null;
  /** What has to be given where nothing may be read (`--offline`). */
  readonly needs: 'clusterIp' | 'endpoints' | null;
  /** Where it sends new connections. Every kind of route is rendered, and read back, in lib/iptables/ and lib/nft/. */
  readonly toRoute: (decision: Decision) => Route;
  /** `direct to 10.0.0.11:6443`: another text is another balance. */
  readonly name: (decision: Decision) => string;
  /** What becomes of connections to the VIP: the end of a sentence that begins with its name. */
  readonly describe: (decision: Decision) => string;
}

const nowhere = { kind: 'translate', backends: [], affinitySeconds: null } as const;

/** All modes, each before those that are taken only where it is not possible: the table of docs/design.md. */
export const modeToEntry: Readonly<Record<BalancingMode, ModeEntry>> = {
  'service-chain': {
    choose: (facts) => {
      // Otherwise it is an obstacle as others are, see findObstacle.
      const isAskedForInVain = facts.mode === 'service-chain' && facts.unwanted !== null;
      return followPath(facts, 'service-chain', isAskedForInVain ? null : facts.serviceChain);
    },
    follows: 'iptables',
    needs: null,
    toRoute: () => ({ kind: 'jump', chain: serviceChain }),
    name: ({ mode }) => mode,
    describe: () => "goes through kube-proxy's service chain of default/kubernetes",
  },
  'cluster-ip': {
    choose: (facts) => followPath(facts, 'cluster-ip', facts.virtualServer),
    follows: 'ipvs',
    needs: 'clusterIp',
    toRoute: ({ vip: { family }, clusterIp: address }) =>
      address === null
        ? nowhere
        : { ...nowhere, backends: [{ family, address, port: kubernetesService.port }] },
    name: ({ mode }) => mode,
    describe: ({ clusterIp }) => `goes to kube-proxy's virtual server ${clusterIp ?? ''}`,
  },
  direct: {
    choose: goDirect,
    follows: null,
    needs: 'endpoints',
    toRoute: ({ backends, affinitySeconds, method, weights }) => ({
      ...{ kind: 'translate', backends, affinitySeconds, method, weights },
    }),
    name: (decision) => `${decision.mode} to ${listTargets(decision).join(', ')}`,
    describe: ({ backends, method = 'random', weights }) =>
      `goes directly to ${countApiservers(backends.length)}, ${weights === undefined ? methodToChoice[method] : 'more of it to apiservers with fewer open connections'}`,
  },
  passthrough: {
    choose: null,
    follows: null,
    needs: null,
    toRoute: () => nowhere,
    name: ({ mode }) => mode,
    describe: () => 'stays with the VIP holder',
  },
};

/** Who gets a connection, where shares are the same. */
const methodToChoice: Readonly<Record<Config['method'], string>> = {
  ...{ random: 'chosen at random', lc: 'chosen at random' },
  ...{ rr: 'in turn', hash: "chosen by the client's address" },
};

/** With their shares of new connections where these differ. */
function listTargets(decision: Decision): string[] {
  const shares = decision.weights === undefined ? null : findShares(decision);
  return decision.backends.map(formatEndpoint).map((text) => {
    const share = shares?.get(text);
    return share === undefined ? text : `${text} (${Math.round(share * 100)} %)`;
  });
}

/** One after the other, as in the table. */
export const modes = Object.keys(modeToEntry) as readonly BalancingMode[];

type ModeOptions = Pick<Config, 'mode' | 'proxyMode' | 'method'>;

/** Those that come into question, in the same order: the one that `--mode` asks for, else all that go with kube-proxy's mode. */
function listEligible({ mode, proxyMode, method }: ModeOptions): readonly BalancingMode[] {
  if (mode !== 'auto') return [mode];
  // Where kube-proxy's rules lead, kube-proxy chooses.
  if (method !== 'random') return ['direct', 'passthrough'];
  return modes.filter((mode) => [null, proxyMode].includes(modeToEntry[mode].follows));
}

/** What part of new connections each backend of the mode direct gets, by its text; null in other modes, where kube-proxy chooses. Pure. */
export function findShares({ mode, backends, weights }: Decision): ReadonlyMap<string, number> | null {
  if (mode !== 'direct') return null;
  const weigh = weighWith(weights);
  const sum = backends.reduce((total, backend) => total + weigh(backend), 0);
  return new Map(backends.map((backend) => [formatEndpoint(backend), weigh(backend) / sum]));
}
