import { type Endpoint } from '../../lib/address/endpoint.ts';
import { type ConnectOutcome } from '../../lib/probe/connect.ts';

/** How one GET /readyz ended. */
export type ReadyzOutcome =
  /** 200; or 401 or 403, where the answer says only that its process lives: `livenessOnly` is then why, a phrase for people. */
  | { readonly kind: 'ready'; readonly livenessOnly?: string }
  /** Another status, or a peer that is no apiserver of this cluster; `reason` is a phrase for people. */
  | { readonly kind: 'failing'; readonly reason: string; readonly cause: FailureCause }
  /** No answer within the limit: slow or frozen. The connection is given up. */
  | { readonly kind: 'silent' }
  /** The connection could not be made or was closed before an answer. */
  | { readonly kind: 'closed' };

/**
 * Why an answer is bad. `shutdown`: it says that it shuts down, its own affair. `distrust`: it is no apiserver of this cluster by the
 * CA and the clock of this host, and one of these may be what is wrong. `other` may fail for all of them a moment later.
 */
export type FailureCause = 'shutdown' | 'distrust' | 'other';

/**
 * What a drain check has shown: `drained` refuses a connect from a drain port and accepts one from an ordinary port, see
 * drain-ports.ts; `admitting` accepts both; `unknown` is everything else, and says nothing.
 */
export type DrainOutcome = 'drained' | 'admitting' | 'unknown';

/**
 * The apiservers as the probes see them. The real one is `createApiserver` (probe-connections.ts); test/support/fakes has
 * one that tests turn by hand. Credentials go only to an apiserver whose certificate was verified, with a question
 * that it does not answer without them.
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

/**
 * One kept-alive TLS connection to one apiserver. A question makes it anew after its end, and where the CA, the clock or the
 * credentials of this host are no longer those of its handshake.
 */
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
