import type { Outcome } from './round.ts';
import type { SetUpName } from './set-ups.ts';
import type { FaultName } from './faults.ts';
import { Rounds } from '../shared/record.ts';

/** One round, with the set-up and the fault it is of. */
export interface RoundRecord extends Outcome {
  readonly setUp: SetUpName;
  readonly fault: FaultName;
  /** Whether every processor was kept busy. */
  readonly isBusy?: boolean;
  /** When it ended, as in ISO 8601. */
  readonly at: string;
}

const record = new Rounds<RoundRecord>('failover');

/** All rounds on record, the oldest first. */
export function readRounds(): RoundRecord[] {
  return record.read();
}

/** Adds one. */
export function appendRound(round: RoundRecord): void {
  record.append(round);
}

/** Which rounds. */
export interface RoundKind {
  readonly setUps: readonly SetUpName[];
  readonly faults: readonly FaultName[];
  readonly isBusy: boolean;
}

/** Those on record of a kind. */
export function pickRounds(kind: RoundKind): RoundRecord[] {
  return record.read().filter((round) => isOfKind(round, kind));
}

/** Removes those of a kind. */
export function removeRounds(kind: RoundKind): void {
  record.remove((round) => isOfKind(round, kind));
}

function isOfKind(round: RoundRecord, { setUps, faults, isBusy }: RoundKind): boolean {
  return setUps.includes(round.setUp) && faults.includes(round.fault) && (round.isBusy ?? false) === isBusy;
}
