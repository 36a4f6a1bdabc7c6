import type { Outcome } from './round.ts';
import type { SetUpName } from './set-ups.ts';
import { Rounds } from '../shared/record.ts';

/** One round, with what it is of. */
export interface RoundRecord extends Outcome {
  readonly setUp: SetUpName;
  /** When it ended, as in ISO 8601. */
  readonly at: string;
}

/** All rounds on record. */
export const record = new Rounds<RoundRecord>('device');
