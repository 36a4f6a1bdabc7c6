import { type Endpoint } from '../address/endpoint.ts';
import { findAccess } from './access.ts';
import { ApiRoute } from './route.ts';

/** What decides how. */
export interface RouteOptions {
  /** Null for a service account's, if any. */
  readonly kubeconfig: string | null;
  /** Where the API is not asked. */
  readonly vips: readonly Endpoint[];
}

/** How to get at the Kubernetes API; null where there are no credentials for it. */
export function findRoute({ kubeconfig, vips }: RouteOptions): ApiRoute | null {
  const readAccess = findAccess(kubeconfig, process.env);
  return readAccess === null ? null : new ApiRoute(readAccess, vips);
}
