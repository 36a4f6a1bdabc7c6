import type { Trigger } from '../../lib/kernel/port.ts';
import type { OwnCause } from '../../lib/sync-queue.ts';
import type { ServingListener } from '../../lib/keepalived/write.ts';
import type { Assessment, RouteChange, MissingSwitch } from '../decide/decision.ts';
import type { Plan } from '../../lib/dialect.ts';
import type { Endpoint } from '../../lib/net.ts';
import type { VipnatError } from '../../lib/errors.ts';

/** Why the loop syncs: a trigger, the first sync, the check of an own write, an apiserver's health, or the Kubernetes API. */
export type LoopCause = Trigger | 'start' | 'verify' | 'health' | 'api';

/** Why a sync was made: one of LoopCause, the slow tick, or a failed sync before it. */
export type Cause = LoopCause | OwnCause;

/** Notified of what the loop does: the log, the metrics, the last sync. */
export interface LoopObserver extends ServingListener {
  /** After something may have changed, before a sync. */
  triggered(trigger: Trigger): void;
  /** After a sync that succeeded, before anything is done about it. */
  synced(assessment: Assessment, tookMs: number): void;
  /** Before a write: what it is for. */
  drift(assessment: Assessment, causes: readonly Cause[]): void;
  /** After a write. */
  written(): void;
  /** After a sync that found nothing to do. */
  inSync(assessment: Assessment): void;
  /** Instead of a write, when the budget for it is spent. Writes come this far apart from then on, in milliseconds. */
  ruleConflict(plan: Plan, paceMs: number): void;
  /** After a sync or write that failed. */
  failure(error: unknown, retryMs: number): void;
  /** Connections to a VIP were reset that hung on a dead apiserver: at least one. */
  flowsReset(vip: Endpoint, backend: Endpoint, count: number): void;
  /** They could not be, for the first time in a row. It is tried again. */
  flowsNotReset(error: unknown): void;
  /** A route for this host's own connections to a VIP was added or removed. */
  sourceRouteChanged(change: RouteChange): void;
  /** Own connections that hung were ended: at least one. */
  ownConnectionsEnded(vip: Endpoint, count: number): void;
  /** All is as wanted for them. */
  localClientsKept(): void;
  /** Routes could not be read or changed, or connections not be ended. Rules do not depend on it. */
  localClientsNotKept(error: unknown): void;
  /** Forwarding was off, and is on. */
  switchedOn(missing: MissingSwitch): void;
  /** It is off again, and stays so for this long: somebody switches it off all the time. */
  conflict(missing: MissingSwitch, waitMs: number): void;
  /** It is off and stays so. */
  notSwitched(problem: VipnatError): void;
  /** After an attempt to read what listens here: whether it succeeded. */
  listeningRead(isRead: boolean): void;
}

/** Notified of attempts to switch on forwarding. */
export type ForwardingListener = Pick<LoopObserver, 'switchedOn' | 'conflict' | 'notSwitched'>;
