import { connect as connectTcp } from 'node:net';
import { type Endpoint } from '../address/endpoint.ts';
import { type Clock, scheduleLimit } from '../control/clock.ts';

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

/** How a connect is made. */
export interface ConnectManner {
  readonly limitMs: number;
  /**
   * How one that is open ends. `close` is in order: then the port waits for a minute on this host. After `reset` nothing is left, but some
   * servers log it.
   */
  readonly end: 'close' | 'reset';
  /** The source port; any that is free when left out. One that is taken, or denied, ends as `untried`. */
  readonly localPort?: number;
}

/** Connects once, sends nothing, and ends the connection. Never rejects; answers after the limit at the latest. */
export function connectOnce(
  clock: Clock,
  { address, port }: Endpoint,
  { limitMs, end, localPort }: ConnectManner,
): Promise<ConnectOutcome> {
  return new Promise((resolve) => {
    const socket = connectTcp({ host: address, port, ...(localPort === undefined ? {} : { localPort }) });
    const finish = (outcome: ConnectOutcome) => {
      cancel();
      if (end === 'reset' && outcome.kind === 'open') socket.resetAndDestroy();
      else socket.destroy();
      resolve(outcome);
    };
    const cancel = scheduleLimit(clock, limitMs, () => {
      finish({ kind: 'silent' });
    });
    socket.on('error', ({ code = 'unknown', syscall }: NodeJS.ErrnoException) => {
      // Of a connect, EACCES is a router's word: ICMPv6, "administratively prohibited".
      finish(syscall === 'bind' ? { kind: 'untried', code } : toOutcome(code));
    });
    socket.on('connect', () => {
      finish({ kind: 'open' });
    });
  });
}

/** What this host lacks, not the peer. */
const ownShortages = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'ENOBUFS', 'EADDRNOTAVAIL', 'EAGAIN']);

function toOutcome(code: string): ConnectOutcome {
  if (code === 'ECONNREFUSED' || code === 'ECONNRESET') return { kind: 'refused' };
  if (code === 'ETIMEDOUT') return { kind: 'silent' };
  return ownShortages.has(code) ? { kind: 'untried', code } : { kind: 'unreachable', code };
}
