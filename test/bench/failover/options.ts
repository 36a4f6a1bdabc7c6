import { parseArgs } from 'node:util';
import { LabError } from '../../lab/error.ts';
import { choose } from '../../lab/options.ts';
import { type FaultName, faultNames } from './faults.ts';
import { type SetUpName, setUpNames } from './set-ups.ts';

/** What a run measures. */
export interface BenchOptions {
  /** How many rounds each set-up has of each fault, those on record included. */
  readonly rounds: number;
  readonly setUps: readonly SetUpName[];
  readonly faults: readonly FaultName[];
  /** Whether rounds on record are measured again. */
  readonly isFresh: boolean;
}

/**
 * Options as typed: everything, 20 rounds each, where nothing is said.
 * @throws LabError that names the one that is wrong.
 */
export function parseBenchOptions(args: readonly string[]): BenchOptions {
  const { rounds, only, fault, fresh } = parse(args);
  if (!/^[1-9]\d{0,3}$/.test(rounds)) {
    throw new LabError(`--rounds ${rounds} is no number of rounds. Example: --rounds 20`);
  }
  return {
    rounds: Number(rounds),
    setUps: chooseSome('--only', only, setUpNames),
    faults: chooseSome('--fault', fault, faultNames),
    isFresh: fresh,
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        rounds: { type: 'string', default: '20' },
        only: { type: 'string' },
        fault: { type: 'string' },
        fresh: { type: 'boolean', default: false },
      },
    }).values;
  } catch (error) {
    throw new LabError((error as Error).message);
  }
}

/** In the order in which they are listed, each once. */
function chooseSome<Word extends string>(
  option: string,
  given: string | undefined,
  words: readonly [Word, ...Word[]],
): Word[] {
  if (given === undefined) return [...words];
  const chosen = given.split(',').map((word) => choose(option, word, words));
  return words.filter((word) => chosen.includes(word));
}
