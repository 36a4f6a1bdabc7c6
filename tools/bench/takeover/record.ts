import type { Outcome } from './round.ts';
import type { SetUpName } from './set-ups.ts';
import type { FaultName } from './faults.ts';
import { Rounds } from '../shared/record.ts';

/** One round, with what it is of. */
export interface RoundRecord extends Outcome {
  readonly setUp: SetUpName;
  readonly fault: FaultName;
  readonly addresses: number;
  /** When it ended, as in ISO 8601. */
  readonly at: string;
}

/** All rounds on record. */
export const record = new Rounds<RoundRecord>('takeover');
