import { LabError } from '../../lab/settings/error.ts';
import { choose } from '../../lab/settings/options.ts';
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';

/**
 * A number of rounds as typed.
 * @throws LabError when it is none.
 */
export function parseRounds(text: string): number {
  if (!/^[1-9]\d{0,3}$/.test(text)) {
    throw new LabError(`--rounds ${text} is no number of rounds. Example: --rounds 20`);
  }
  return Number(text);
}

/**
 * Words with commas as typed, in the order in which they are listed, each once; all of them when nothing was typed.
 * @throws LabError that names the option and all words.
 */
export function chooseSome<Word extends string>(
  option: string,
  given: string | undefined,
  words: readonly [Word, ...Word[]],
): Word[] {
  if (given === undefined) return [...words];
  const chosen = given.split(',').map((word) => choose(option, word, words));
  return words.filter((word) => chosen.includes(word));
}

/**
 * Options as typed, not judged yet.
 * @throws LabError that names one which is none of these, or lacks its value.
 */
export function parseWords<Options extends ParseArgsOptionsConfig>(
  args: readonly string[],
  options: Options,
): ReturnType<typeof parseArgs<{ args: string[]; options: Options }>>['values'] {
  try {
    return parseArgs({ args: [...args], options }).values;
  } catch (error) {
    throw new LabError((error as Error).message);
  }
}

/** What a run measures: rounds of set-ups. */
export interface RunOptions<SetUp> {
  /** How many rounds each set-up has, those on record included. */
  readonly rounds: number;
  readonly setUps: readonly SetUp[];
  /** Whether rounds on record are measured again. */
  readonly isFresh: boolean;
}

/**
 * `--rounds`, `--only` and `--fresh` as typed: every set-up, 5 rounds each, where nothing is said.
 * @throws LabError that names the one that is wrong.
 */
export function parseRunOptions<SetUp extends string>(
  args: readonly string[],
  setUpNames: readonly [SetUp, ...SetUp[]],
): RunOptions<SetUp> {
  const { rounds, only, fresh } = parseWords(args, {
    rounds: { type: 'string', default: '5' },
    only: { type: 'string' },
    fresh: { type: 'boolean', default: false },
  });
  return { rounds: parseRounds(rounds), setUps: chooseSome('--only', only, setUpNames), isFresh: fresh };
}

/**
 * The rounds that a run lacks, by those on record: rounds with every set-up once, and every second one in the other direction, so
 * that a lab is changed less often.
 */
export function listMissingRounds<SetUp extends string>(
  { setUps, rounds }: RunOptions<SetUp>,
  known: readonly { readonly setUp: SetUp }[],
): SetUp[] {
  return Array.from({ length: rounds }, (_, round) => {
    const missing = setUps.filter((name) => known.filter(({ setUp }) => setUp === name).length <= round);
    return round % 2 === 0 ? missing : missing.toReversed();
  }).flat();
}
