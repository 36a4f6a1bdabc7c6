import { type Way } from '../../config/way.ts';
import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { type Weights, weighWith } from '../../lib/netfilter/rules/balance.ts';
import { type Sourced } from '../../lib/text/sourced.ts';
import { type Config, type Mode } from '../../config/config.ts';
import { type Usable } from '../health/usable.ts';
import { type ProxyMode } from '../observe/proxy-mode.ts';

/** A path kube-proxy offers to the service: usable by us only while its backends are the usable ones. */
export interface ProxyPath {
  readonly clusterIp: string;
  readonly backends: readonly Endpoint[];
  /** The backend that is at a virtual IP, if one is: connections to a virtual IP cannot end there. Left out where none is. */
  readonly loop?: Endpoint | null;
  /** Where it was seen, for the reason. */
  readonly seenIn: string;
}

/** All that the decision about one VIP rests on. */
export interface VipFacts {
  readonly vip: Endpoint;
  /** `--mode`. */
  readonly mode: Mode;
  /** `--method`. */
  readonly method?: Config['method'];
  /** With the method `lc`: what new connections the usable apiservers get, where that is not the same. */
  readonly weights?: Weights | undefined;
  readonly proxyMode: Sourced<ProxyMode>;
  /** The kernel's switch that keeps this host from passing on what is balanced, or null. */
  readonly closedSwitch: string | null;
  /** kube-proxy's live chain in the backend we write to, or null. */
  readonly serviceChain: ProxyPath | null;
  /** Why there is a chain and yet none to follow, or null. */
  readonly serviceChainProblem: string | null;
  /** kube-proxy's virtual server with a real server of weight above 0, or null. */
  readonly virtualServer: ProxyPath | null;
  /** Why the virtual server cannot be told from others, with the way out, or null. */
  readonly virtualServerProblem: string | null;
  /** The rule by which kube-proxy shows that it wants its chain gone, or null. */
  readonly unwanted: Sourced<string> | null;
  /** The apiservers that may get new connections, of the VIP's family, and where they are known from or who is left out. */
  readonly usable: Usable;
  /** For how long a client stays with its apiserver; null for not at all. */
  readonly affinitySeconds: number | null;
  /** Where the Kubernetes API lists them, when they are known from there; else null. */
  readonly apiSource: string | null;
  /** In how many looks on end kube-proxy's backends were the usable ones, this one included. */
  readonly agreedLooks: number;
  /** Whether the bypass was on: direct because kube-proxy's backends were not the usable ones. */
  readonly wasBypassing: boolean;
}

/** The way one VIP goes, and why. */
export interface Decision {
  readonly vip: Endpoint;
  readonly way: Way;
  /** One sentence for a person, without the VIP. */
  readonly reason: string;
  /** Whether this is the bypass, to be left only after two equal looks. */
  readonly isBypass: boolean;
  /** kube-proxy's ClusterIP for the service as far as known. */
  readonly clusterIp: string | null;
  /** For how long a client stays with its apiserver in the way direct; null for not at all. */
  readonly affinitySeconds: number | null;
  /** Where connections end, whichever way they go: empty for passthrough. */
  readonly backends: readonly Endpoint[];
  /** What new connections each backend gets in the way direct; left out where it is the same. */
  readonly weights?: Weights;
}

/** What part of new connections each backend of the way direct gets, by its text; null in other ways, where kube-proxy chooses. Pure. */
export function findShares({ way, backends, weights }: Decision): ReadonlyMap<string, number> | null {
  if (way !== 'direct') return null;
  const weigh = weighWith(weights);
  const sum = backends.reduce((total, backend) => total + weigh(backend), 0);
  return new Map(backends.map((backend) => [formatEndpoint(backend), weigh(backend) / sum]));
}

/** `1 apiserver`, `3 apiservers`. */
export function countApiservers(count: number): string {
  return `${count} apiserver${count === 1 ? '' : 's'}`;
}
