import { type ErrorCode } from '../../lib/text/errors.ts';

/** What a balancer has done since its start. */
export interface BalancerCounts {
  readonly changes: number;
  readonly repairs: number;
  readonly failures: ReadonlyMap<ErrorCode, number>;
}

/** Notified of what a balancer does. */
export interface BalancerObserver {
  /** Changes of so many Services are in the kernel, so long after the first event of them. */
  programmed(services: number, tookMs: number): void;
  /** A table that another program had changed or removed is written again. */
  repaired(): void;
  failed(code: ErrorCode): void;
}

/** Counts. How long a change took is for `time`, in seconds. */
export class BalancerCounter implements BalancerObserver {
  readonly #time: (seconds: number) => void;
  readonly #failures = new Map<ErrorCode, number>();
  #changes = 0;
  #repairs = 0;

  constructor(time: (seconds: number) => void) {
    this.#time = time;
  }

  get counts(): BalancerCounts {
    return { changes: this.#changes, repairs: this.#repairs, failures: this.#failures };
  }

  programmed(services: number, tookMs: number): void {
    this.#changes += services;
    this.#time(tookMs / 1000);
  }

  repaired(): void {
    this.#repairs += 1;
  }

  failed(code: ErrorCode): void {
    this.#failures.set(code, (this.#failures.get(code) ?? 0) + 1);
  }
}
