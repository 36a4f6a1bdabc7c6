import { type Endpoint } from '../../lib/address/endpoint.ts';
import { type ConnectOutcome } from '../../lib/probe/connect.ts';

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
 * What a drain check has shown: `drained` refuses a connect from a drain port and accepts one from an ordinary port, see
 * drain-ports.ts; `admitting` accepts both; `unknown` is everything else, and says nothing.
 */
export type DrainOutcome = 'drained' | 'admitting' | 'unknown';

/**
 * The apiservers as the probes see them. The real one is `createApiserver` (probe-connections.ts); test/support/fakes has
 * one that tests turn by hand. Sends no secret: no client certificate, no token.
 */
export interface Apiserver {
  /** Connects once and closes again. Never rejects; answers after the limit at the latest. */
  connect(endpoint: Endpoint, limitMs: number): Promise<ConnectOutcome>;
  /** Whether its host is drained. Never rejects; answers after twice the limit at the latest. */
  checkDrain(endpoint: Endpoint, limitMs: number): Promise<DrainOutcome>;
  /** A connection to be held. Nothing is sent before the first question. */
  hold(endpoint: Endpoint, onClose: () => void): HeldConnection;
  /** A connection for signs of life, made at once. */
  openPingConnection(endpoint: Endpoint, listener: PingListener): PingConnection;
}

/** One kept-alive TLS connection to one apiserver, made anew by the first question after its end. */
export interface HeldConnection {
  /** Whether it is up now. */
  readonly isOpen: boolean;
  /**
   * Asks GET /readyz. One question at a time. Never rejects; answers after the limit at the latest, and after twice the limit
   * where a connection has to be made first.
   */
  ask(limitMs: number): Promise<ReadyzOutcome>;
  /** Ends it for good; `onClose` is not called for that, nor for a question that was given up. */
  close(): void;
}

/** One TLS connection, on which only the smallest request of HTTP is sent. */
export interface PingConnection {
  /** Whether the peer's kernel has accepted it. */
  readonly isConnected: boolean;
  /** Sends a request, as soon as the handshake is over. One at a time. */
  send(): void;
  /** Ends it for good; the listener hears nothing more. */
  close(): void;
}

/** What is heard on it. */
export interface PingListener {
  /** The peer's process has sent something: an answer to the request, or a part of the handshake. */
  readonly onHeard: (isAnswer: boolean) => void;
  /** It is over. */
  readonly onEnd: () => void;
}
