import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type FaultName } from './faults.ts';
import { type Outcome } from './round.ts';
import { type SetUpName } from './set-ups.ts';

/** One round, with the set-up and the fault it is of. */
export interface RoundRecord extends Outcome {
  readonly setUp: SetUpName;
  readonly fault: FaultName;
  /** When it ended, as in ISO 8601. */
  readonly at: string;
}

/** One line of JSON for each round, kept between runs. */
export const recordFile = fileURLToPath(new URL('../../../.cache/bench/failover.jsonl', import.meta.url));

/** All rounds on record, the oldest first. A line that was cut off counts for nothing. */
export function readRounds(): RoundRecord[] {
  return readText()
    .split('\n')
    .flatMap((line) => {
      try {
        return [JSON.parse(line) as RoundRecord];
      } catch {
        return [];
      }
    });
}

/** Adds one. */
export function appendRound(round: RoundRecord): void {
  mkdirSync(dirname(recordFile), { recursive: true });
  appendFileSync(recordFile, `${JSON.stringify(round)}\n`);
}

/** Removes those of some set-ups and faults. */
export function removeRounds(setUps: readonly SetUpName[], faults: readonly FaultName[]): void {
  const left = readRounds().filter(({ setUp, fault }) => !setUps.includes(setUp) || !faults.includes(fault));
  mkdirSync(dirname(recordFile), { recursive: true });
  writeFileSync(recordFile, left.map((round) => `${JSON.stringify(round)}\n`).join(''));
}

function readText(): string {
  try {
    const text = readFileSync(recordFile, 'utf8');
    // Whatever ended in the middle of a line must not spoil the next one.
    if (text !== '' && !text.endsWith('\n')) appendFileSync(recordFile, '\n');
    return text;
  } catch {
    return '';
  }
}
