import { type Command, type Option } from 'commander';
import { families } from '../../../lib/address/address.ts';
import { listChoices, nameFlag, optionNames } from '../../config/options.ts';
import { manifestKinds } from '../../manifest/options.ts';
import { planFormats } from '../command-context.ts';
import { createGrammar } from '../grammar.ts';
import { configTerms, describeConfigFlag } from '../help.ts';
import { commandNames } from '../invocation.ts';
import { colourChoices } from '../screen.ts';

/** The shells that can be completed in. */
export const shells = ['bash', 'zsh', 'fish'] as const;

/** One of shells. */
export type Shell = (typeof shells)[number];

/** One option as a shell completes it. */
export interface CompletedOption {
  readonly flag: string;
  /** One phrase. */
  readonly meaning: string;
  /** Whether it has a value: none, one behind `=` only, or one in any way. */
  readonly takes: 'nothing' | 'optional' | 'value';
  readonly value: CompletedValue;
}

/** What a value can be: words, a path, or what no shell knows. */
export type CompletedValue =
  | { readonly kind: 'words'; readonly words: readonly string[] }
  | { readonly kind: 'file' | 'folder' | 'unknown' };

/** One command as a shell completes it. */
export interface CompletedCommand {
  readonly name: string;
  readonly meaning: string;
  /** What can stand behind it without an option. */
  readonly words: readonly string[];
  readonly options: readonly CompletedOption[];
}

/** All commands with the options that the grammar has for them. */
export function listCompletions(): CompletedCommand[] {
  return commandNames.map((name) => {
    const { commands } = createGrammar({ version: '', word: name, onFound: () => undefined });
    const command = commands.find((candidate) => candidate.name() === name);
    if (command === undefined) throw new TypeError(`the grammar has no command ${name}`);
    return {
      name,
      meaning: command.summary() || command.description(),
      words: commandToWords.get(name) ?? [],
      options: listOptions(command),
    };
  });
}

const commandToWords = new Map<string, readonly string[]>([
  ['manifest', manifestKinds],
  ['help', commandNames],
  ['completion', shells],
]);

function listOptions(command: Command): CompletedOption[] {
  const options = command.options.map((option) => ({
    flag: option.long ?? '',
    meaning: describeConfigFlag(option.long ?? '') ?? option.description,
    takes: readArity(option),
    value: findValue(option.long ?? ''),
  }));
  const help = {
    flag: '--help',
    meaning: 'print this help',
    takes: 'nothing',
    value: { kind: 'unknown' },
  } as const;
  return [...options, help];
}

function readArity({ required, optional }: Option): CompletedOption['takes'] {
  if (required) return 'value';
  return optional ? 'optional' : 'nothing';
}

const flagToWords = new Map<string, readonly string[]>([
  ['--format', planFormats],
  ['--family', families],
  ['--color', colourChoices],
]);

function findValue(flag: string): CompletedValue {
  const name = optionNames.find((candidate) => nameFlag(candidate) === flag);
  const words = flagToWords.get(flag) ?? (name === undefined ? [] : listChoices(name));
  if (words.length > 0) return { kind: 'words', words };
  const term = configTerms.get(flag) ?? '';
  if (/ (?:FILE|PATH)$/.test(term)) return { kind: 'file' };
  return { kind: term.endsWith(' FOLDER') ? 'folder' : 'unknown' };
}
