import { type WorkloadName, workloadNames } from './workloads.ts';
import { parseWords, parseRounds, chooseSome } from '../shared/options.ts';

/** What a run measures. */
export interface DatapathOptions {
  /** How many rounds there are of each, those on record included. */
  readonly rounds: number;
  readonly workloads: readonly WorkloadName[];
  /** Whether rounds on record are measured again. */
  readonly isFresh: boolean;
}

/**
 * Options as typed: everything, 5 rounds each, where nothing is said.
 * @throws LabError that names the one that is wrong.
 */
export function parseDatapathOptions(args: readonly string[]): DatapathOptions {
  const { rounds, only, fresh } = parseWords(args, {
    rounds: { type: 'string', default: '5' },
    only: { type: 'string' },
    fresh: { type: 'boolean', default: false },
  });
  return {
    rounds: parseRounds(rounds),
    workloads: chooseSome('--only', only, workloadNames),
    isFresh: fresh,
  };
}
