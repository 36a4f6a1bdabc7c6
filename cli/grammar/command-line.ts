import { CommanderError } from 'commander';
import { VipnatError } from '../../lib/text/errors.ts';
import { findNearest } from '../../config/nearest.ts';
import { describeOption, nameFlag, optionNames } from '../../config/options.ts';
import { quoteText } from '../../config/setting.ts';
import { createGrammar } from './grammar.ts';
import { commandNames, type Invocation } from './invocation.ts';

/**
 * Reads the command line, without the program's name. `width` is how many columns help may have: 80 unless given. Throws
 * CONFIG_INVALID where it cannot even be told what was meant: an unknown command, or an option without its value.
 */
export function parseCommandLine(words: readonly string[], version: string, width?: number): Invocation {
  const args = expandHelp(words);
  const refusal = refuseFirstWord(args[0]);
  if (refusal !== null) throw new VipnatError('CONFIG_INVALID', refusal);
  let text = '';
  let invocation: Invocation | undefined;
  const grammar = createGrammar({
    version,
    word: args[0],
    nextWord: args[1],
    ...(width !== undefined && { width }),
    onFound: (found) => {
      invocation = found;
    },
  });
  for (const command of [grammar, ...grammar.commands]) {
    command.exitOverride().configureOutput({
      writeOut: (part) => {
        text += part;
      },
      writeErr: () => undefined,
    });
  }
  try {
    grammar.parse(args, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode !== 0) throw new VipnatError('CONFIG_INVALID', explain(error), { cause: error });
  }
  return invocation ?? { kind: 'text', text };
}

/** `help status` is `status --help`; no words at all ask for help too. */
function expandHelp(words: readonly string[]): readonly string[] {
  const [first, ...topic] = words;
  if (first === undefined) return ['--help'];
  if (first !== 'help' || topic[0] === '--help' || topic[0] === '-h') return words;
  return [...topic.slice(0, 2), '--help'];
}

/** Commander takes options before the command for the program's own. */
function refuseFirstWord(word = ''): string | null {
  if (['--help', '-h', '--version', '-v', ...commandNames].includes(word)) return null;
  const [flag = ''] = word.split('=');
  if (['--config', ...optionNames.map(nameFlag)].includes(flag)) {
    return `${flag} comes after the command. Example: vipnat plan ${flag} …`;
  }
  if (word.startsWith('-')) return `${quoteText(word)} is not an option. See vipnat --help`;
  const nearest = findNearest(word, commandNames);
  const hint = nearest === null ? `Commands: ${commandNames.join(', ')}` : `Did you mean ${nearest}?`;
  return `${quoteText(word)} is not a command. ${hint}`;
}

function explain({ code, message }: CommanderError): string {
  if (code === 'commander.missingArgument')
    return message.includes('shell')
      ? 'completion needs the shell: bash, zsh, fish. Example: vipnat completion bash'
      : 'vrid needs the virtual IP. Example: vipnat vrid 10.0.0.50';
  // commander 15.1: error: option '--vip <value>' argument missing
  const flag = /option '(--[a-z-]+)[^']*' argument missing/.exec(message)?.[1];
  if (flag === undefined) return message.replace(/^error: /, '').replaceAll(/\s+/g, ' ');
  const name = optionNames.find((candidate) => nameFlag(candidate) === flag);
  const example = name === undefined ? '' : `. Example: ${flag} ${describeOption(name).example}`;
  return `${flag} needs a value${example}`;
}
