import { type Address } from '../../lib/address/address.ts';

/** Notified of what becomes of other nodes. None of these is called for what has not changed. */
export interface NodeListener {
  /** A node does not answer: its endpoints take no new connection from now on. */
  out(node: string, address: Address): void;
  /** It has not answered for so long that its open connections are forgotten. */
  lost(node: string): void;
  /** A lost node answers again. It is not back: it may have started anew, so the report of its balancer is awaited. */
  returns(node: string): void;
  /** It is in use again, after so many milliseconds. */
  back(node: string, silentMs: number): void;
  /** It has never answered at its address: it stays in use, whatever happens to it. */
  neverAnswers(node: string, address: Address): void;
  /** The addresses of nodes cannot be read; null: they can again. */
  unlisted(error: unknown): void;
}
