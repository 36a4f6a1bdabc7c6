import { createHash } from 'node:crypto';
import { type Endpoint, formatEndpoint, sortEndpoints } from '../../address/endpoint.ts';
import { toWeightsOf } from './chance.ts';

/** How new connections to one VIP are balanced, ready to be rendered. All endpoints are of the VIP's family. */
export interface Balance {
  readonly vip: Endpoint;
  readonly route: Route;
  /** Who rewrites the source address: our own rule, kube-proxy's KUBE-MARK-MASQ, or nobody. */
  readonly masquerade: 'own' | 'kube-mark' | 'none';
  /** Who may answer its connections, also those that are open; none when left out. */
  readonly apiservers?: readonly Endpoint[];
}

/** Where new connections go. */
export type Route =
  /** Into somebody else's chain of the same table: in iptables only, and not read back. */
  | { readonly kind: 'jump'; readonly chain: string }
  /** To one of these, each as likely unless weights say otherwise. An empty list leaves them to the VIP's holder. */
  | {
      readonly kind: 'translate';
      readonly backends: readonly Endpoint[];
      readonly weights?: Weights | undefined;
      /** For how long a client that came once goes to the same backend again; not at all when absent or null. */
      readonly affinitySeconds?: number | null;
    };

/** Backends, by text (see formatEndpoint), to whole numbers above 0: of the sum, the part of new connections that each gets. */
export type Weights = ReadonlyMap<string, number>;

/** Who may answer connections of these balances, each once and in order. */
export function listApiservers(
  balances: readonly { readonly apiservers?: readonly Endpoint[] | undefined }[],
): Endpoint[] {
  return sortEndpoints(balances.flatMap(({ apiservers = [] }) => apiservers));
}

/** What `toChances` asks: without weights, each is as likely. One that the weights do not name gets an equal share. */
export function weighWith(weights: Weights | undefined): (backend: Endpoint) => number {
  return (backend) => weights?.get(formatEndpoint(backend)) ?? unitsPerBackend;
}

/** Weights add up to this for each backend: so they can be read back from rules, which have them in lowest terms. */
export const unitsPerBackend = 20;

/** What rules of ours that are there do with one VIP's new connections, where they translate. */
export interface InstalledBalance {
  /** At least one. */
  readonly backends: readonly Endpoint[];
  /** For how long a client that came once goes to the same backend again; null: not at all. */
  readonly affinitySeconds: number | null;
  /** Left out where each is as likely. */
  readonly weights?: Weights;
}

/** The weights of backends whose rules, tried one after the other, take these parts of what gets to them; undefined for equal ones. */
export function readWeights(backends: readonly Endpoint[], parts: readonly number[]): Weights | undefined {
  const weights = toWeightsOf(parts, unitsPerBackend);
  if (weights === undefined) return undefined;
  return new Map(backends.map((backend, index) => [formatEndpoint(backend), weights[index] ?? 0]));
}

/** The chain that says how one VIP is balanced: `VIPNAT-` and ten hexadecimal digits of its family, address and port. */
export function vipChainName(vip: Endpoint): string {
  return `VIPNAT-${shorten(`${vip.family} ${formatEndpoint(vip)}`, 10)}`;
}

/** The set or list of the clients of a VIP whose place at one backend is kept. */
export function affinityName(vip: Endpoint, backend: Endpoint): string {
  return `${vipChainName(vip)}-${shorten(formatEndpoint(backend), 8)}`;
}

function shorten(text: string, digits: number): string {
  return createHash('sha256').update(text).digest('hex').slice(0, digits);
}
