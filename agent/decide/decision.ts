import type { Observation } from '../observe/observe.ts';
import { type Endpoint, type Family, formatEndpoint, parseEndpoint } from '../../lib/net.ts';
import type { Plan, Weights } from '../../lib/dialect.ts';
import type { LocalRoutes, SourceRoute, Dialect } from '../../lib/kernel/port.ts';
import type { Health, HealthView, Usable, Choices } from '../health/usable.ts';
import type { Sourced } from '../../lib/text.ts';
import type { Mode, Config, BalancingMode } from '../../config/options.ts';
import { type FoundProxyMode, type ServiceState, emptyServiceState } from '../observe/kube-proxy.ts';

/** The result of a sync: what was seen, each VIP's mode, what to write for it, and what to remember. */
export interface Assessment {
  readonly observation: Observation;
  readonly candidates: readonly VipCandidates[];
  readonly decisions: readonly Decision[];
  /** Whoever may answer connections, also open ones, see listAnswerers: by the text of the VIP. */
  readonly answerers: ReadonlyMap<string, readonly Endpoint[]>;
  readonly plan: Plan;
  /** What has to be switched on before what is balanced gets anywhere. */
  readonly missingSwitches: readonly MissingSwitch[];
  /** How this host reaches its own addresses; null where that could not be read: rules do not depend on it. */
  readonly localRoutes: LocalRoutes | null;
  /** What an agent does about this host's own connections to VIPs. */
  readonly sourceRoutes: readonly RouteChange[];
  /** VIP address to the source of this host's own connections to it, of IPv4 VIPs that are here. */
  readonly sources: ReadonlyMap<string, string>;
  /** Who was named as an apiserver and cannot be one: a sentence for each. */
  readonly refused: readonly string[];
  readonly health: HealthView;
  readonly memory: ReconcileState;
}

/** One route to add or to remove. */
export interface RouteChange {
  readonly kind: 'add' | 'remove';
  readonly route: SourceRoute;
  /** For people: half a sentence. */
  readonly reason: string;
  /** The same as a command for a shell. */
  readonly command: string;
}

/** What has to be switched on, as sysctl takes it. */
export interface MissingSwitch {
  readonly family: Family;
  readonly name: string;
  /** What switches it on, as a command for a shell: no route and no address goes by it. */
  readonly command: string;
  /** The interfaces that have to obey router advertisements all the same. */
  readonly advertised: readonly string[];
  /** The interface whose own switch it is; left out where it is the host's. */
  readonly device?: string;
  /** Whether vipnat may switch it on (`--sysctls set`). */
  readonly isOwn: boolean;
}

/** A VIP, and the apiservers that it could be balanced over, whatever their health. */
export interface VipCandidates {
  readonly vip: Endpoint;
  readonly candidates: Candidates;
}

/** The apiservers to balance over, what kind of source they are known from, and which were refused before that. */
export interface Candidates extends Choices {
  /** Whether it is the Kubernetes API that they are known from. */
  readonly isFromApi: boolean;
  /** Whether they are known from a source that reports changes: the API or kube-proxy. */
  readonly isLive: boolean;
  readonly refused: readonly string[];
}

/** A path kube-proxy offers to the service: usable by vipnat only while its backends are the usable ones. */
export interface ProxyPath {
  readonly clusterIp: string;
  readonly backends: readonly Endpoint[];
  /** The backend that is at a virtual IP, if one is: connections to a virtual IP cannot end there. Left out where none is. */
  readonly loop?: Endpoint | null;
  /** Where it was seen, for the reason. */
  readonly seenIn: string;
}

/** All that the decision about one VIP rests on. */
export interface VipFacts extends Pick<Decision, 'vip' | 'affinitySeconds' | 'method' | 'weights'> {
  /** `--mode`. */
  readonly mode: Mode;
  readonly proxyMode: Sourced<FoundProxyMode>;
  /** The kernel's switch that keeps this host from passing on what is balanced, or null. */
  readonly closedSwitch: string | null;
  /** kube-proxy's live chain in the backend that vipnat writes to, or null. */
  readonly serviceChain: ProxyPath | null;
  /** Why there is a chain and yet none to follow, or null. */
  readonly serviceChainProblem: string | null;
  /** kube-proxy's virtual server with a real server of weight above 0, or null. */
  readonly virtualServer: ProxyPath | null;
  /** Why the virtual server cannot be distinguished from another, with the remedy, or null. */
  readonly virtualServerProblem: string | null;
  /** The rule by which kube-proxy shows that it wants its chain gone, or null. */
  readonly unwanted: Sourced<string> | null;
  /** The apiservers that may get new connections, of the VIP's family, and where they are known from or who is left out. */
  readonly usable: Usable;
  /** Whether the Kubernetes API lists more of them than are usable: kube-proxy gets the same list. False when left out. */
  readonly isListLonger?: boolean;
  /** Where the Kubernetes API lists them, when they are known from there; else null. */
  readonly apiSource: string | null;
  /** What else names them where nothing live does: `--endpoints`, memory, or vipnat's own rules. Null when left out. */
  readonly source?: string | null;
  /** In how many syncs in a row kube-proxy's backends were the usable ones, this one included. */
  readonly agreedSyncs: number;
  /** Whether the bypass was on: direct because kube-proxy's backends were not the usable ones. */
  readonly wasBypassing: boolean;
}

/** The mode of one VIP, and why. */
export interface Decision {
  readonly vip: Endpoint;
  readonly mode: BalancingMode;
  /** One sentence for a person, without the VIP. */
  readonly reason: string;
  /** Whether this is the bypass, to be left only after two equal syncs. */
  readonly isBypass: boolean;
  /** kube-proxy's ClusterIP for the service as far as known. */
  readonly clusterIp: string | null;
  /** For how long a client stays with its apiserver in the mode direct; null for not at all. */
  readonly affinitySeconds: number | null;
  /** Where connections end, in whichever mode: empty for passthrough. */
  readonly backends: readonly Endpoint[];
  /** How each is chosen in the mode direct; at random when left out. */
  readonly method?: Config['method'];
  /** What new connections each backend gets in the mode direct; left out where it is the same. */
  readonly weights?: Weights | undefined;
}

/** `1 apiserver`, `3 apiservers`. */
export function countApiservers(count: number): string {
  return `${count} apiserver${count === 1 ? '' : 's'}`;
}

/** Whether this node sees that an apiserver serves nobody. One drained on purpose serves. Pure. */
export function isDown({ state, isDrained = false, unconfirmedFailure }: Health): boolean {
  return state === 'dead' || (state === 'draining' && !isDrained) || unconfirmedFailure !== undefined;
}

/** Whether all known apiservers of a VIP's family are down: those that stay in use then serve nobody. Null where none is down. Pure. */
export function findOutage(
  { vip, backends }: Pick<Decision, 'vip' | 'backends'>,
  health: HealthView,
): { readonly isTotal: boolean } | null {
  const known = [...health].filter(([text]) => parseEndpoint(text)?.family === vip.family);
  const down = known.filter(([, one]) => isDown(one));
  // Nobody has probed whoever answers in mode passthrough.
  const isServed = backends.length === 0 || backends.some((one) => !health.has(formatEndpoint(one)));
  return down.length === 0 ? null : { isTotal: down.length === known.length && !isServed };
}

/** A VIP's state in the last sync. */
export interface VipState {
  /** In how many syncs in a row kube-proxy's backends were the usable ones. */
  readonly agreedSyncs: number;
  readonly isBypass: boolean;
}

/** What a sync leaves for the next, never changed in place. Without it two syncs decide the same (I4). */
export interface ReconcileState extends ServiceState {
  /** By VIP text. */
  readonly vips: ReadonlyMap<string, VipState>;
  /** How a backend's tool prints rules of vipnat's that read differently from what was written, by `backend id`. */
  readonly renderings: ReadonlyMap<string, string>;
  /** What rules were written to, or found in sync in; null before the first sync. */
  readonly dialect: Dialect | null;
  /** What of the rules was unread, see nameUnread, and whether the sync before could read it. */
  readonly unread: { readonly names: string; readonly isNew: boolean };
  /** Families that could not be made to forward. */
  readonly unforwardable: ReadonlySet<Family>;
}

/** What of it outlives a process. */
export type LastingState = Pick<ReconcileState, 'endpoints' | 'previousEndpoints'>;

/** The memory of a process that has not synced yet. */
export const emptyState: ReconcileState = {
  ...emptyServiceState,
  vips: new Map(),
  renderings: new Map(),
  dialect: null,
  unread: { names: '', isNew: false },
  unforwardable: new Set(),
};

/** The key of a rule's print. */
export function renderingKey(dialect: Dialect, id: string): string {
  return `${dialect} ${id}`;
}
