import { type VrrpState } from '../../lib/keepalived/notices.ts';
import { type ServingListener } from '../../lib/keepalived/serving-keeper.ts';

/** Notified of what becomes of this node's seats. None of these is called for what has not changed. */
export interface SeatsListener extends ServingListener {
  /** This node has a seat's addresses from now on, or no longer. */
  held(seat: string, isHeld: boolean): void;
  /** keepalived says that a vrrp_instance is in another state. */
  stateChanged(instance: string, state: VrrpState): void;
  /** Another host on the network answers for an address; null: it does no longer. */
  inUse(address: string, mac: string | null): void;
  /** A seat or an address is left out from now on: a sentence. */
  leftOut(problem: string): void;
  /** keepalived.conf is replaced. */
  written(): void;
  /** keepalived takes the file from now on (null), or refuses it: in its words. */
  refused(words: string | null): void;
  /** The file is used as it is, as no keepalived is installed here that could check it. */
  notChecked(error: unknown): void;
  /** The balancer's keepalived runs from now on, or no longer. */
  running(isRunning: boolean): void;
  /** It could not be looked at, or the file could not be written; null: it could again. Tried again in a second. */
  failed(error: unknown): void;
}
