import { type Endpoint } from '../../lib/address/endpoint.ts';

/** Apiservers as a look finds them, and which addresses are this host's own. */
export interface Watched {
  readonly endpoints: readonly Endpoint[];
  readonly localAddresses: ReadonlySet<string>;
  /** Those of `endpoints` whom the API or kube-proxy lists. Nobody when left out. */
  readonly live?: readonly Endpoint[];
  /** Who is watched too while none of a family does well: all are dead, draining, or kept in use for want of a better one. */
  readonly fallbackEndpoints?: readonly Endpoint[];
  /**
   * Where this host's own apiserver would be, which nobody names. It is watched as the fallback endpoints are, and is nobody until
   * it has answered a question well: anything may listen there.
   */
  readonly own?: readonly Endpoint[];
  /** Whom intact rules of ours send connections to: what a monitor begins with. Nobody when left out. */
  readonly inUse?: readonly Endpoint[];
}
