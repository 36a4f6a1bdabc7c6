import { type Clock, type Cancel, backOff } from './clock.ts';

/**
 * What syncs owe: two milliseconds of rest for each one that they took, so that they take at most a third of any span
 * of time (I14). Rest is paid while no sync is in progress. Pure.
 */
interface Debt {
  readonly owedMs: number;
  /** When it was that much, by the Clock: at the end of the last sync. */
  readonly at: number;
}

const restPerSync = 2;

/** Tools that hang take their time from nobody: after however long a sync, the next one is this near. */
const maxRestMs = 60_000;

function owedAt({ owedMs, at }: Debt, now: number): number {
  return Math.max(0, owedMs - (now - at));
}

/**
 * When the loop syncs. A trigger says little, so syncs wait for a burst to settle, rest in proportion to what they
 * cost, and get rarer while they find nothing. A sync that somebody waits for (the check of a write, a retry, an
 * apiserver's health, rules of vipnat that are gone) may run ahead of its rest a little; one that a death waits for does not rest at all.
 */

/** What every queue has as a cause of its own: that nothing was asked for until the tick, or that a sync failed. */
export type OwnCause = 'tick' | 'retry';

/** When to sync next, at the latest. */
export interface Requeue<Cause extends string> {
  readonly cause: Cause | OwnCause;
  readonly delayMs: number;
}

/** A burst of changes (kube-proxy: about 20 commands and a restore) is mostly over after this; a person notices nothing. */
const settleMs = 20;

/** What says more than that something has changed waits for little: its cause may be several commands, and one sync is enough. */
const urgentSettleMs = 5;

/** Where something else writes all the time, syncs that find nothing come less and less often, at worst every second. */
const maxPaceMs = 1000;

/** A few syncs that find nothing are no sign of that yet: kube-proxy's start alone takes as many. */
const freeIdleSyncs = 5;

/** Catches what no trigger shows: a legacy write from a container that does not share the lock file. */
export const tickMs = 60_000;

/** So much rest may be owed when a sync begins that somebody waits for: a write is checked immediately while a sync takes less than a second. */
const aheadMs = 2000;

interface QueuePorts<Cause extends string> {
  readonly clock: Clock;
  /** Those that somebody waits for: the others are hints, or for nothing in particular. A sync that failed is waited for, too. */
  readonly awaited: readonly Cause[];
  /** Those that say more than that something has changed: they come no less often while syncs find nothing. None by default. */
  readonly urgent?: readonly Cause[];
  /** Never rejects. Answers when to sync next. */
  readonly sync: (causes: readonly (Cause | OwnCause)[]) => Promise<Requeue<Cause>>;
  /** Milliseconds of rest that are owed at most, however long syncs take; a minute by default. */
  readonly mostRestMs?: number;
}

/** Calls `sync` one time after the other, never twice at the same time. */
export class TriggerQueue<Cause extends string> {
  readonly #clock: Clock;
  readonly #awaited: ReadonlySet<string>;
  readonly #urgent: ReadonlySet<string>;
  readonly #sync: QueuePorts<Cause>['sync'];
  readonly #mostRestMs: number;
  readonly #causes = new Set<Cause | OwnCause>();
  #timer: { readonly due: number; readonly cancel: Cancel } | null = null;
  #turn: Promise<void> | null = null;
  #isStopped = false;
  #isPressing = false;
  #debt: Debt = { owedMs: 0, at: 0 };
  #idleSyncs = 0;
  #lastSyncStarted = 0;

  constructor({ clock, awaited, urgent = [], sync, mostRestMs = maxRestMs }: QueuePorts<Cause>) {
    this.#mostRestMs = mostRestMs;
    this.#clock = clock;
    this.#urgent = new Set(urgent);
    this.#awaited = new Set([...awaited, 'retry']);
    this.#sync = sync;
  }

  /** Syncs once the burst that this trigger may be part of is over. */
  trigger(cause: Cause): void {
    this.requeueAfter(cause, this.#settleTime(cause));
  }

  /** Syncs in so many milliseconds and when it has rested, or earlier if that is planned already; after the sync in progress, if any. */
  requeueAfter(cause: Cause | OwnCause, delayMs: number): void {
    // A tick that is only planned is no cause of the sync that comes before it.
    if (cause !== 'tick') this.#causes.add(cause);
    if (this.#isStopped || this.#turn !== null) return;
    const waitMs = this.waitMs(cause, delayMs);
    const due = this.#clock.now() + waitMs;
    if (this.#timer !== null && this.#timer.due <= due) return;
    this.#timer?.cancel();
    this.#timer = { due, cancel: this.#clock.schedule(waitMs, () => void this.#startTurn()) };
  }

  /** In how long a sync comes that is requested now, or when the one in progress ends now. */
  waitMs(cause: Cause | OwnCause, delayMs: number): number {
    const now = this.#clock.now();
    const debt = this.#turn === null ? this.#debt : this.#addSync(now);
    const owedMs = this.#isPressing ? 0 : owedAt(debt, now);
    return Math.max(0, delayMs, owedMs - (this.#awaited.has(cause) ? aheadMs : 0));
  }

  /** The debt after the last sync, if that ends then. */
  #addSync(ended: number): Debt {
    const started = this.#lastSyncStarted;
    const owedMs = owedAt(this.#debt, started) + (ended - started) * restPerSync;
    return { owedMs: Math.min(this.#mostRestMs, owedMs), at: ended };
  }

  /** Syncs immediately, or right after the sync in progress: a death waits for it. */
  press(cause: Cause): void {
    this.#isPressing = true;
    this.requeueAfter(cause, 0);
  }

  /** To be called after every sync: whether it found nothing to do, or failed. */
  recordOutcome(isIdle: boolean): void {
    this.#idleSyncs = isIdle ? this.#idleSyncs + 1 : 0;
  }

  /** For how long the sync in progress has lasted, or the next one is overdue; none that is planned is overdue too. */
  get behindMs(): number {
    const awaitedSince = this.#turn === null ? (this.#timer?.due ?? this.#debt.at) : this.#lastSyncStarted;
    return Math.max(0, this.#clock.now() - awaitedSince);
  }

  /** Plans no further sync, and waits for the one in progress. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    await this.#turn;
  }

  /** How long to wait after a trigger: a moment on a quiet host, longer the more syncs in a row found nothing. */
  #settleTime(cause: string): number {
    if (this.#urgent.has(cause)) return urgentSettleMs;
    const restedMs = this.#clock.now() - this.#debt.at;
    if (restedMs > maxPaceMs) this.#idleSyncs = 0;
    return Math.max(
      settleMs,
      backOff(Math.max(0, this.#idleSyncs - freeIdleSyncs), settleMs, maxPaceMs) - restedMs,
    );
  }

  async #startTurn(): Promise<void> {
    const causes: (Cause | OwnCause)[] = this.#causes.size === 0 ? ['tick'] : [...this.#causes];
    this.#causes.clear();
    this.#isPressing = false;
    this.#timer = null;
    this.#lastSyncStarted = this.#clock.now();
    let next: Requeue<Cause> = { cause: 'tick', delayMs: tickMs };
    this.#turn = this.#sync(causes).then((answer) => void (next = answer));
    await this.#turn;
    this.#turn = null;
    this.#debt = this.#addSync(this.#clock.now());
    this.#planAfter(next);
  }

  #planAfter(next: Requeue<Cause>): void {
    // A sync that failed is tried again soon; what was asked for meanwhile comes with it.
    if (this.#isPressing || next.cause !== 'retry')
      for (const cause of this.#causes)
        this.requeueAfter(cause, this.#awaited.has(cause) ? 0 : this.#settleTime(cause));
    this.requeueAfter(next.cause, next.delayMs);
  }
}
