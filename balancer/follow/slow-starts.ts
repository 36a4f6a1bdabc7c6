/**
 * Gives a pod that has just become ready few connections, and ever more, where its Service asks for that.
 *
 * Goal: a pod that is cold is not flooded.
 * Tension: each step is a write, and many pods may start at once.
 * Compromise: ten steps, and one write a second at most for all pods of all Services.
 */
import { type Cancel, type Clock } from '../../lib/control/clock.ts';
import { usualWeight } from '../../lib/services/weights.ts';
import { readDuration } from '../../lib/services/wishes.ts';
import { type BalancedService } from '../decide/balanced-service.ts';

/** From a tenth of its weight to all of it. */
const stepCount = 10;

/** Between two writes. */
const paceMs = 1000;

/** A timer of Node.js takes 24 days at most. */
const maxWaitMs = 3_600_000;

interface Start {
  /** Since when it is ready; long ago for one that is not new. */
  readonly sinceMs: number;
  /** Since when no slice has it: one that moves to another slice may be in none for a moment. */
  goneMs: number | null;
}

/** Of all Services that ask for it. Time is that of a clock that no date changes. */
export class SlowStarts {
  readonly #clock: Clock;
  readonly #onDue: (services: readonly string[]) => void;
  readonly #serviceToStarts = new Map<string, Map<string, Start>>();
  readonly #serviceToDueMs = new Map<string, number>();
  #cancel: Cancel | null = null;
  #steppedMs = -Infinity;
  #isStopped = false;

  /** `onDue` is called when pods of some Services are due for more: `weigh` has other weights for them then. */
  constructor(clock: Clock, onDue: (services: readonly string[]) => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  /** A Service with the weights of this moment. Pods that are ready when it is seen for the first time are not new. */
  weigh(service: string, balanced: BalancedService | null): BalancedService | null {
    this.#serviceToDueMs.delete(service);
    const durationMs = balanced === null ? 0 : (readDuration(balanced.service, 'slowStart').ms ?? 0);
    if (balanced === null || durationMs === 0) {
      this.#serviceToStarts.delete(service);
      return balanced;
    }
    const starts = this.#note(service, balanced, durationMs);
    const addressToStep = this.#listSteps(service, starts, durationMs / stepCount);
    if (addressToStep.size === 0) return balanced;
    this.#plan();
    const weights = listEndpoints(balanced).map(({ address }): [string, number] => {
      const weight = balanced.weights.get(address) ?? usualWeight;
      return [address, weight * (addressToStep.get(address) ?? stepCount)];
    });
    return { ...balanced, weights: new Map(weights) };
  }

  /** Calls nobody any more. */
  stop(): void {
    this.#isStopped = true;
    this.#cancel?.();
  }

  #note(service: string, balanced: BalancedService, durationMs: number): ReadonlyMap<string, Start> {
    const now = this.#clock.now();
    const known = this.#serviceToStarts.get(service);
    const starts = known ?? new Map<string, Start>();
    const endpoints = listEndpoints(balanced);
    const present = new Set(endpoints.map(({ address }) => address));
    for (const { address, isReady } of endpoints) {
      if (isReady && !starts.has(address))
        starts.set(address, { sinceMs: known === undefined ? -Infinity : now, goneMs: null });
    }
    forgetGone(starts, present, { now, durationMs });
    this.#serviceToStarts.set(service, starts);
    return starts;
  }

  /** Those who have not all of their weight yet. */
  #listSteps(service: string, starts: ReadonlyMap<string, Start>, stepMs: number): Map<string, number> {
    const now = this.#clock.now();
    const addressToStep = new Map<string, number>();
    let dueMs = Infinity;
    for (const [address, { sinceMs, goneMs }] of starts) {
      const step = Math.floor((now - sinceMs) / stepMs) + 1;
      if (step >= stepCount || goneMs !== null) continue;
      addressToStep.set(address, step);
      dueMs = Math.min(dueMs, sinceMs + step * stepMs);
    }
    if (dueMs < Infinity) this.#serviceToDueMs.set(service, dueMs);
    return addressToStep;
  }

  #plan(): void {
    if (this.#isStopped) return;
    this.#cancel?.();
    this.#cancel = null;
    if (this.#serviceToDueMs.size === 0) return;
    const now = this.#clock.now();
    const dueMs = Math.max(this.#steppedMs + paceMs, Math.min(...this.#serviceToDueMs.values()));
    this.#cancel = this.#clock.schedule(Math.min(maxWaitMs, Math.max(0, dueMs - now)), () => {
      this.#step();
    });
  }

  #step(): void {
    const now = this.#clock.now();
    const due = [...this.#serviceToDueMs].filter(([, dueMs]) => dueMs <= now).map(([service]) => service);
    for (const service of due) this.#serviceToDueMs.delete(service);
    if (due.length > 0) this.#steppedMs = now;
    this.#plan();
    if (due.length > 0) this.#onDue(due);
  }
}

/** Those that no slice has had for so long. */
function forgetGone(
  starts: Map<string, Start>,
  present: ReadonlySet<string>,
  { now, durationMs }: { readonly now: number; readonly durationMs: number },
): void {
  for (const [address, start] of starts) {
    start.goneMs = present.has(address) ? null : (start.goneMs ?? now);
    if (start.goneMs !== null && now - start.goneMs >= durationMs) starts.delete(address);
  }
}

interface SeenEndpoint {
  readonly address: string;
  readonly isReady: boolean;
}

/** Each as often as slices have it. */
function listEndpoints({ slices }: BalancedService): SeenEndpoint[] {
  return slices.flatMap(({ endpoints }) =>
    (endpoints ?? []).map(({ addresses: [address = ''], conditions }) => ({
      address,
      isReady: conditions?.ready ?? true,
    })),
  );
}
