import { type Assessment } from '../decide/assess.ts';
import { type LoopObserver } from './loop-observer.ts';

/** Remembers what the loop last saw and how it fared, for whoever asks how things are. */
export class LastLook implements Partial<LoopObserver> {
  #assessment: Assessment | null = null;
  #hasConverged = false;
  #failure: string | null = null;

  /** The last look that succeeded; null before the first. */
  get assessment(): Assessment | null {
    return this.#assessment;
  }

  /** Why the agent is not ready: the rules were never yet seen or written as they should be. Null from then on, whatever happens. */
  get notReadyReason(): string | null {
    if (this.#hasConverged) return null;
    if (this.#failure !== null) return this.#failure;
    return this.#assessment === null
      ? 'the first sync has not ended yet'
      : 'vipnat has not written its rules yet';
  }

  looked(assessment: Assessment): void {
    this.#assessment = assessment;
  }

  written(): void {
    this.#hasConverged = true;
  }

  inSync(): void {
    this.#hasConverged = true;
  }

  failure(error: unknown): void {
    this.#failure = error instanceof Error ? error.message : String(error);
  }
}
