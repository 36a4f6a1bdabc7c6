import { type Endpoint } from '../../lib/address/endpoint.ts';

/** Apiservers as a look finds them, and which addresses are this host's own. */
export interface Watched {
  readonly endpoints: readonly Endpoint[];
  readonly localAddresses: ReadonlySet<string>;
  /** Those of `endpoints` that the API or kube-proxy lists; none when left out. */
  readonly live?: readonly Endpoint[];
  /** Also watched while no listed apiserver of a family is healthy: all are dead, draining, or kept in use for want of a better one. */
  readonly fallbackEndpoints?: readonly Endpoint[];
  /**
   * Where this host's own apiserver would be, if no source lists it. It is watched like fallback endpoints. It counts as an
   * apiserver once it has answered a question well: any program may listen there.
   */
  readonly own?: readonly Endpoint[];
  /** The apiservers that vipnat's intact rules send connections to, for a monitor that starts; none when left out. */
  readonly inUse?: readonly Endpoint[];
  /** Whether the rules could not be read, so that `inUse` says nothing yet. False when left out. */
  readonly isBlind?: boolean;
}
