import { type Family } from '../../lib/address/address.ts';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { type Sourced } from '../../lib/text/sourced.ts';
import { type ApiView } from '../api/cluster-api.ts';

/** What looks leave of one Service for the next, by family: another Service has another. Never changed in place. */
export interface ServiceState {
  readonly endpoints: Readonly<Partial<Record<Family, Sourced<readonly Endpoint[]>>>>;
  /** Who was named once and no longer is, the latest first: asked when all others are dead. */
  readonly previousEndpoints: Readonly<Partial<Record<Family, readonly Endpoint[]>>>;
  /** For how many seconds kube-proxy last kept clients with their backends. */
  readonly affinity: Readonly<Partial<Record<Family, number | null>>>;
  /** What the Kubernetes API said last, or null for nothing. */
  readonly api: ApiView | null;
  /** What kube-proxy had when the API was last heard: later news of kube-proxy's are newer than the API's word. */
  readonly proxyBesideApi: Readonly<Partial<Record<Family, readonly Endpoint[]>>>;
}

/** What is left of one family of a Service. */
export interface FamilyState {
  /** Null when nobody was ever known. */
  readonly endpoints: Sourced<readonly Endpoint[]> | null;
  readonly previousEndpoints: readonly Endpoint[];
  /** Null for not at all, and when nobody ever said it. */
  readonly affinitySeconds: number | null;
  readonly proxyBesideApi: readonly Endpoint[];
}

/** The state of a Service of which nothing was heard yet. */
export const emptyServiceState: ServiceState = {
  endpoints: {},
  previousEndpoints: {},
  affinity: {},
  api: null,
  proxyBesideApi: {},
};

/** What is left of one family; nothing of the others. Pure. */
export function recallFamily(
  { endpoints, previousEndpoints, affinity, proxyBesideApi }: ServiceState,
  family: Family,
): FamilyState {
  return {
    endpoints: endpoints[family] ?? null,
    previousEndpoints: previousEndpoints[family] ?? [],
    affinitySeconds: affinity[family] ?? null,
    proxyBesideApi: proxyBesideApi[family] ?? [],
  };
}
