import { type VipnatError } from '../../text/errors.ts';
import { type Clock } from '../../control/clock.ts';
import { type Trigger } from '../port.ts';

/** What every source of triggers is given. */
export interface SourceOptions {
  readonly clock: Clock;
  readonly onTrigger: (trigger: Trigger) => void;
  /** Told of the first of a row of failures. */
  readonly onProblem: (problem: VipnatError) => void;
}

/** A source of triggers that is at work. */
export interface Source {
  /** Resolves once changes are seen, or when that could not be brought about. Never rejects. */
  readonly ready: Promise<void>;
  /** Ends it and waits until nothing of it is left. Nothing is called back afterwards. */
  stop(): Promise<void>;
}
