import { type Endpoint } from '../../lib/address/endpoint.ts';

/** How one TCP connect ended. */
export type ConnectOutcome =
  /** The peer's kernel answered: load on the peer does not slow that. */
  | { readonly kind: 'open' }
  /** A reset: the host is there and nobody listens. */
  | { readonly kind: 'refused' }
  /** The way there failed at once; `code` is the system's word, as EHOSTUNREACH. */
  | { readonly kind: 'unreachable'; readonly code: string }
  /** No answer within the limit. */
  | { readonly kind: 'silent' }
  /** This process could not even try, as without a free file descriptor: it says nothing about the peer. */
  | { readonly kind: 'untried'; readonly code: string };

/** How one GET /readyz ended. */
export type ReadyzOutcome =
  /** 200; or 401 or 403, where anonymous probes are forbidden and the TLS handshake has to do. */
  | { readonly kind: 'ready' }
  /**
   * Another status, or a peer that is no apiserver of this cluster; `reason` is a phrase for people. `isOwn`: what fails
   * is its own affair, as it shuts down or is no apiserver; all else may fail for all of them a moment later.
   */
  | { readonly kind: 'failing'; readonly reason: string; readonly isOwn: boolean }
  /** No answer within the limit: slow or frozen. The connection is given up. */
  | { readonly kind: 'silent' }
  /** The connection could not be made or was closed before an answer. */
  | { readonly kind: 'closed' };

/**
 * The apiservers as the probes see them. The real one is `createApiserver` (probe-connections.ts); test/support/fakes has
 * one that tests turn by hand. Sends no secret: no client certificate, no token.
 */
export interface Apiserver {
  /** Connects once and closes again. Never rejects; answers after the limit at the latest. */
  connect(endpoint: Endpoint, limitMs: number): Promise<ConnectOutcome>;
  /** A connection to be held. Nothing is sent before the first question. */
  hold(endpoint: Endpoint, onClose: () => void): HeldConnection;
}

/** One kept-alive TLS connection to one apiserver, made anew by the first question after its end. */
export interface HeldConnection {
  /** Whether it is up now. */
  readonly isOpen: boolean;
  /** Asks GET /readyz. One question at a time. Never rejects; answers after the limit at the latest. */
  ask(limitMs: number): Promise<ReadyzOutcome>;
  /** Ends it for good; `onClose` is not called for that, nor for a question that was given up. */
  close(): void;
}
