import { type SetUpName, setUpNames } from './set-ups.ts';
import { type FaultName, faultNames } from './faults.ts';
import { parseWords, parseRounds, chooseSome } from '../shared/options.ts';

/** What a run measures. */
export interface BenchOptions {
  /** How many rounds each set-up has of each fault, those on record included. */
  readonly rounds: number;
  readonly setUps: readonly SetUpName[];
  readonly faults: readonly FaultName[];
  /** Whether rounds on record are measured again. */
  readonly isFresh: boolean;
  /** Whether every processor is kept busy during each round. */
  readonly isBusy: boolean;
}

/**
 * Options as typed: everything, 20 rounds each, where nothing is said.
 * @throws LabError that names the one that is wrong.
 */
export function parseBenchOptions(args: readonly string[]): BenchOptions {
  const { rounds, only, fault, fresh, busy } = parseWords(args, {
    rounds: { type: 'string', default: '20' },
    only: { type: 'string' },
    fault: { type: 'string' },
    fresh: { type: 'boolean', default: false },
    busy: { type: 'boolean', default: false },
  });
  return {
    rounds: parseRounds(rounds),
    setUps: chooseSome('--only', only, setUpNames),
    faults: chooseSome('--fault', fault, faultNames),
    isFresh: fresh,
    isBusy: busy,
  };
}
