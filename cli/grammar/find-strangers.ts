import { type Command } from 'commander';
import { findNearest } from '../../config/nearest.ts';
import { quoteText } from '../../config/setting.ts';

/** Options that a command does not have, and words beyond the first `wordCount`: a sentence for each. */
export function findStrangers(command: Command, wordCount: number): string[] {
  const known = command.options.map(({ long }) => long ?? '');
  const help = `See vipnat ${command.name()} --help`;
  const foreign = command.args.filter((word) => word.startsWith('-'));
  // Words beside an unknown option may be its values: then only the option is told.
  if (foreign.length === 0)
    return command.args.slice(wordCount).map((word) => `${quoteText(word)} is one word too many. ${help}`);
  return foreign.map((word) => {
    const [flag = ''] = word.split('=');
    const nearest = flag === '--format' && known.includes('--json') ? '--json' : findNearest(flag, known);
    const hint = nearest === null ? help : `Did you mean ${nearest}?`;
    return `${quoteText(flag)} is not an option of ${command.name()}. ${hint}`;
  });
}
