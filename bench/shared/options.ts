import { parseArgs, type ParseArgsOptionsConfig } from 'node:util';
import { LabError } from '../../lab/settings/error.ts';
import { choose } from '../../lab/settings/options.ts';

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
