import { type SetUpName, setUpNames } from './set-ups.ts';
import { type FaultName, faultNames } from './faults.ts';
import { parseWords, parseRounds, chooseSome } from '../shared/options.ts';

/** How many addresses there can be, as words. */
export const addressCounts = ['1', '1000'] as const;

/** What a run measures. */
export interface TakeoverOptions {
  /** How many rounds each set-up has of each fault with each number of addresses, those on record included. */
  readonly rounds: number;
  readonly setUps: readonly SetUpName[];
  readonly faults: readonly FaultName[];
  /** How many addresses there are: fewer first. */
  readonly counts: readonly number[];
  /** Whether rounds on record are measured again. */
  readonly isFresh: boolean;
}

/**
 * Options as typed: everything, 5 rounds each, where nothing is said.
 * @throws LabError that names the one that is wrong.
 */
export function parseTakeoverOptions(args: readonly string[]): TakeoverOptions {
  const { rounds, only, fault, addresses, fresh } = parseWords(args, {
    rounds: { type: 'string', default: '5' },
    only: { type: 'string' },
    fault: { type: 'string' },
    addresses: { type: 'string' },
    fresh: { type: 'boolean', default: false },
  });
  return {
    rounds: parseRounds(rounds),
    setUps: chooseSome('--only', only, setUpNames),
    faults: chooseSome('--fault', fault, faultNames),
    counts: chooseSome('--addresses', addresses, addressCounts).map(Number),
    isFresh: fresh,
  };
}
