import { chooseSome, parseRounds, parseWords } from '../shared/options.ts';
import { type SetUpName, setUpNames } from './set-ups.ts';

/** What a run measures. */
export interface BesideOptions {
  /** How many rounds each set-up has, those on record included. */
  readonly rounds: number;
  readonly setUps: readonly SetUpName[];
  /** Whether rounds on record are measured again. */
  readonly isFresh: boolean;
}

/**
 * Options as typed: everything, 5 rounds each, where nothing is said.
 * @throws LabError that names the one that is wrong.
 */
export function parseBesideOptions(args: readonly string[]): BesideOptions {
  const { rounds, only, fresh } = parseWords(args, {
    rounds: { type: 'string', default: '5' },
    only: { type: 'string' },
    fresh: { type: 'boolean', default: false },
  });
  return { rounds: parseRounds(rounds), setUps: chooseSome('--only', only, setUpNames), isFresh: fresh };
}
