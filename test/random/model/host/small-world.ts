import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import type { Endpoint } from '../../../../lib/net.ts';
import type { Source } from '../../property/tables.ts';

export const vip = toEndpoint('10.0.0.50:6443');

/** The ClusterIP of its service, and the service's port. */
export const clusterIp = toEndpoint('10.96.0.1:443');

export const three = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'].map(toEndpoint);

/** What kube-proxy, or the Kubernetes API, can list. */
export const endpointSets = { three, two: three.slice(0, 2), none: [] } satisfies Record<
  string,
  readonly Endpoint[]
>;

export type EndpointSet = keyof typeof endpointSets;

/** Where kube-proxy and strangers write. */
export const nft: Source = { family: 'ipv4', dialect: 'nft' };
