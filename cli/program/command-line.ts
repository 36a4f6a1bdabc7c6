import { type Command, CommanderError } from 'commander';
import { findNearest } from '../../config/nearest.ts';
import { type Flags } from '../../config/flags.ts';
import { describeOption, nameFlag, optionNames } from '../../config/options.ts';
import { quoteText } from '../../config/setting.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { type LoadedCommand } from '../command/command.ts';
import { type Given, readFlags } from '../flags/flag.ts';
import { proseWidth } from '../format/text/screen.ts';
import { createGrammar } from './grammar.ts';
import { commandNames, table } from './table.ts';

/** Help or the version, to be printed as it is. */
export interface TextInvocation {
  readonly kind: 'text';
  readonly text: string;
}

/** A command, and what its own flags and words come to. */
export interface CallInvocation extends LoadedCommand {
  readonly kind: 'call';
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly words: readonly string[];
  /** What flags gave of the configuration, beside the command's own. */
  readonly flags: Flags;
  /** What --config names. */
  readonly file: string | undefined;
  /** What is wrong with the words themselves, one line each; what the values come to is checked later. */
  readonly problems: readonly string[];
  /** The command's flags that could not be read. */
  readonly unread: ReadonlySet<string>;
}

/** What a command line asks for. */
export type Invocation = TextInvocation | CallInvocation;

/**
 * Reads the command line, without the program's name. `width` is how many columns help may have: 80 unless given. Rejects as
 * CONFIG_INVALID where it cannot even be told what was meant: an unknown command, or an option without its value.
 */
export async function parseCommandLine(
  given: readonly string[],
  version: string,
  width: number = proseWidth,
): Promise<Invocation> {
  const args = expandHelp(given);
  const refusal = refuseFirstWord(args[0]);
  if (refusal !== null) throw new VipnatError('CONFIG_INVALID', refusal);
  const row = table.find(({ name }) => name === args[0]);
  const loaded = row === undefined ? null : { row, command: await row.load() };
  const isHelp = args.includes('--help') || args.includes('-h');
  const found: Command[] = [];
  const grammar = createGrammar(
    {
      version,
      width,
      onFound: (command) => {
        found.push(command);
      },
    },
    loaded === null ? null : { ...loaded, kind: findKind(loaded, args[1]), isHelp },
  );
  const text = parse(grammar, args, loaded);
  const [called] = found;
  return loaded === null || called === undefined ? { kind: 'text', text } : toInvocation(loaded, called);
}

function findKind({ command }: LoadedCommand, word = ''): string {
  return command.heeds !== undefined && command.kinds?.has(word) === true ? word : '';
}

/** Lets commander read the words; answers what it prints. */
function parse(grammar: Command, args: readonly string[], loaded: LoadedCommand | null): string {
  let text = '';
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
    if (error.exitCode !== 0)
      throw new VipnatError('CONFIG_INVALID', explain(error, loaded), { cause: error });
  }
  return text;
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

function explain({ code, message }: CommanderError, loaded: LoadedCommand | null): string {
  const missing = loaded?.command.argument?.missing;
  if (code === 'commander.missingArgument' && missing !== undefined) return missing;
  // commander 15.1: error: option '--vip <value>' argument missing
  const flag = /option '(--[a-z-]+)[^']*' argument missing/.exec(message)?.[1];
  if (flag === undefined) return message.replace(/^error: /, '').replaceAll(/\s+/g, ' ');
  const name = optionNames.find((candidate) => nameFlag(candidate) === flag);
  const example = name === undefined ? '' : `. Example: ${flag} ${describeOption(name).example}`;
  return `${flag} needs a value${example}`;
}

/** Unknown words were let pass, so that they are told together with everything else that is wrong. */
function toInvocation(loaded: LoadedCommand, found: Command): CallInvocation {
  const { row, command } = loaded;
  const all = found.opts<Record<string, Given>>();
  const words = found.args;
  const problems: string[] = [];
  const isUnclear = words.some((word) => word.startsWith('-'));
  const ofWords = command.words?.read(words, {
    all,
    isUnclear,
    report: (problem) => {
      problems.push(problem);
    },
  });
  const own = readFlags(command.flags, all, words);
  return {
    ...{ kind: 'call', ...loaded, name: row.name, words },
    options: { ...own.options, ...ofWords },
    flags: all as Flags,
    file: all['config'] as string | undefined,
    problems: [
      ...findStrangers(found, command.words?.count(words) ?? (command.argument === undefined ? 0 : 1)),
      ...problems,
      ...own.problems,
    ],
    unread: own.unread,
  };
}

/** Options that a command does not have, and words beyond the first `wordCount`: a sentence for each. */
function findStrangers(command: Command, wordCount: number): string[] {
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
