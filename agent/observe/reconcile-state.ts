import { type Family } from '../../lib/address/address.ts';
import { type Dialect } from '../../lib/kernel/port.ts';
import { emptyServiceState, type ServiceState } from './service-state.ts';

/** How a VIP stood in the last look. */
export interface VipState {
  /** In how many looks on end kube-proxy's backends were the usable ones. */
  readonly agreedLooks: number;
  readonly isBypass: boolean;
}

/** How a VIP stands before the first look. */
export const unseenVip: VipState = { agreedLooks: 0, isBypass: false };

/**
 * What one look leaves for the next: of the Service default/kubernetes, and of this host. Small on purpose: an agent that lost it decides the same way within two
 * looks (I4). Never changed in place.
 */
export interface ReconcileState extends ServiceState {
  /** By VIP text. */
  readonly vips: ReadonlyMap<string, VipState>;
  /** How a backend's tool prints rules of ours that read differently from what was written, by `backend id`. */
  readonly renderings: ReadonlyMap<string, string>;
  /** What rules were written to, or found in sync in; null before the first look. */
  readonly dialect: Dialect | null;
  /** What of the rules was unread, see nameUnread, and whether it was not in the look before. */
  readonly unread: { readonly names: string; readonly isNew: boolean };
  /** Families that could not be made to forward. */
  readonly unforwardable: ReadonlySet<Family>;
}

/** What of it outlives a process. */
export type LastingState = Pick<ReconcileState, 'endpoints' | 'previousEndpoints'>;

/** The memory of a process that has not looked yet. */
export const emptyState: ReconcileState = {
  ...emptyServiceState,
  vips: new Map(),
  renderings: new Map(),
  dialect: null,
  unread: { names: '', isNew: false },
  unforwardable: new Set(),
};

/** The key of a rule's print. */
export function renderingKey(dialect: Dialect, id: string): string {
  return `${dialect} ${id}`;
}
