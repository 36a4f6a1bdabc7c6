import { parseWords } from '../shared/options.ts';
import { LabError } from '../../lab/settings/error.ts';

/** What a run does. */
export interface SoakOptions {
  /** For how long there are faults. */
  readonly minutes: number;
  /** Which faults, and where. */
  readonly seed: number;
  /** Whether only the report of the last run is written again. */
  readonly isReport: boolean;
}

/**
 * Options as typed: an hour, where nothing is said.
 * @throws LabError that names the one that is wrong.
 */
export function parseSoakOptions(args: readonly string[]): SoakOptions {
  const { minutes, seed, report } = parseWords(args, {
    minutes: { type: 'string', default: '60' },
    seed: { type: 'string', default: '1' },
    report: { type: 'boolean', default: false },
  });
  if (!/^[1-9]\d{0,3}$/.test(minutes)) {
    throw new LabError(`--minutes ${minutes} is no number of minutes. Example: --minutes 60`);
  }
  if (!/^\d{1,9}$/.test(seed)) throw new LabError(`--seed ${seed} is no seed. Example: --seed 1`);
  return { minutes: Number(minutes), seed: Number(seed), isReport: report };
}
