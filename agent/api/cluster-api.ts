import { type Family } from '../../lib/address/address.ts';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { type Sourced } from '../../lib/text/sourced.ts';
import { type KnownApiservers } from '../../lib/kubernetes/servers.ts';

/** What the Kubernetes API says of the Service default/kubernetes. Never changed in place. */
export interface ApiView {
  /** The ready apiservers, sorted, as the API lists them: whether they can be believed is for `admit`. A family without an EndpointSlice is missing. */
  readonly endpoints: Readonly<Partial<Record<Family, Sourced<readonly Endpoint[]>>>>;
  /** The Service's ClusterIPs, each one that a Service can have. */
  readonly clusterIps: Readonly<Partial<Record<Family, string>>>;
  /** For how long a client stays with its apiserver (sessionAffinity ClientIP): 1 to 86,400; null for no affinity. */
  readonly affinitySeconds: number | null;
  /** What was listed and can be nothing of the kind: a sentence for each. */
  readonly refused: readonly string[];
  /** Whether the API still answers. False: it was so when the API was last heard. */
  readonly isCurrent: boolean;
}

/**
 * The Kubernetes API as a source of apiservers. The agent's is `WatchedApi`, that of a command which looks once
 * `ListedApi`; test/support/fakes/cluster-api.ts has one that tests turn by hand.
 */
export interface ClusterApi {
  /** Told at every look who may be asked; answers what the API has said so far, null while that is nothing. Never rejects. */
  getView(known: KnownApiservers): ApiView | null | Promise<ApiView | null>;
}

/** Whether the API is followed, everything of it, and since when that is so, by the Clock. */
export interface Following {
  readonly isFollowed: boolean;
  readonly since: number;
}

/** An API source that follows by itself, from the first `getView` on. */
export interface FollowedApi extends ClusterApi {
  /** What it has said so far. */
  readonly view: ApiView | null;
  /** How that goes; null where nothing is followed. */
  readonly following: Following | null;
  /** Told who is down by our probes, as text (see `formatEndpoint`), whenever that changes: they are not followed while others are there. */
  setUnhealthy(unwell: ReadonlySet<string>): void;
  /** Ends all that is under way. */
  stop(): void;
}

/** No credentials are configured: nothing is asked. */
export const noApi: FollowedApi = {
  view: null,
  following: null,
  getView: () => null,
  setUnhealthy: () => undefined,
  stop: () => undefined,
};
