import { type SetUpName, setUpNames } from './set-ups.ts';
import { parseWords, parseRounds, chooseSome } from '../shared/options.ts';

/** How many Services there can be, as words. */
export const serviceCounts = ['10', '100', '1000'] as const;

/** What a run measures. */
export interface ServicesOptions {
  /** How many rounds each set-up has with each number of Services, those on record included. */
  readonly rounds: number;
  readonly setUps: readonly SetUpName[];
  /** How many Services there are: fewer first. */
  readonly counts: readonly number[];
  /** Whether rounds on record are measured again. */
  readonly isFresh: boolean;
}

/**
 * Options as typed: everything, 3 rounds each, where nothing is said.
 * @throws LabError that names the one that is wrong.
 */
export function parseServicesOptions(args: readonly string[]): ServicesOptions {
  const { rounds, only, services, fresh } = parseWords(args, {
    rounds: { type: 'string', default: '3' },
    only: { type: 'string' },
    services: { type: 'string' },
    fresh: { type: 'boolean', default: false },
  });
  return {
    rounds: parseRounds(rounds),
    setUps: chooseSome('--only', only, setUpNames),
    counts: chooseSome('--services', services, serviceCounts).map(Number),
    isFresh: fresh,
  };
}
