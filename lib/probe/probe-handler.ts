import { type Endpoint } from '../address/endpoint.ts';

/** A GET over TLS, held open between two of them. */
export interface HttpsGet {
  readonly path: string;
  /** The backend's own where it is left out. */
  readonly port?: number;
}

/** A connection that is opened and closed again; nothing is sent. */
export interface TcpSocket {
  /** The backend's own where it is left out. */
  readonly port?: number;
}

/** What a probe does at a backend, in the words of core/v1 ProbeHandler. */
export type ProbeHandler = { readonly httpsGet: HttpsGet } | { readonly tcpSocket: TcpSocket };

/** What an apiserver is asked for: whether it is ready, not whether it lives. */
export const apiserverProbe: { readonly httpsGet: HttpsGet } = { httpsGet: { path: '/readyz' } };

/** Where a backend is probed. Pure. */
export function locateProbe(handler: ProbeHandler, backend: Endpoint): Endpoint {
  const { port = backend.port } = 'httpsGet' in handler ? handler.httpsGet : handler.tcpSocket;
  return { ...backend, port };
}

/** The request of a probe that makes one. Pure. */
export function toRequest(
  { httpsGet }: { readonly httpsGet: HttpsGet },
  backend: Endpoint,
): { readonly host: string; readonly port: number; readonly path: string } {
  const { address, port } = locateProbe({ httpsGet }, backend);
  return { host: address, port, path: httpsGet.path };
}
