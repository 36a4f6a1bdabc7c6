import { type Command, type Option } from 'commander';
import { families } from '../../lib/address/address.ts';
import { listChoices, nameFlag, optionNames } from '../../config/options.ts';
import { manifestKinds } from '../generate/manifest/options.ts';
import { planFormats } from '../grammar/command-context.ts';
import { createGrammar } from '../grammar/grammar.ts';
import { configTerms, describeConfigFlag } from '../grammar/help.ts';
import { deviceActions, seatsActions } from '../grammar/command-context.ts';
import { commandNames } from '../grammar/invocation.ts';
import { colourChoices } from '../format/text/screen.ts';

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

/** What can stand behind certain words of the command line. */
export interface CompletedPlace {
  /** The words after `vipnat`: `status`, `manifest systemd`. */
  readonly path: string;
  /** The next word, unless it is an option. */
  readonly words: readonly string[];
  /** The options that the help of these words lists. */
  readonly options: readonly CompletedOption[];
}

/** One command as a shell completes it. */
export interface CompletedCommand extends CompletedPlace {
  readonly meaning: string;
  /** Its kinds, where these have words or options of their own. */
  readonly kinds: readonly CompletedPlace[];
}

/** All commands with the options that their help lists. */
export function listCompletions(): CompletedCommand[] {
  return commandNames.map((name) => {
    const command = findCommand(name);
    return {
      ...listPlace(command, name),
      meaning: command.summary() || command.description(),
      kinds: (commandToKinds.get(name) ?? []).map((kind) => {
        return listPlace(findCommand(name, kind), `${name} ${kind}`);
      }),
    };
  });
}

/** All places: the commands and their kinds. */
export function listPlaces(commands: readonly CompletedCommand[]): CompletedPlace[] {
  return commands.flatMap((command) => [command, ...command.kinds]);
}

function findCommand(name: string, kind?: string): Command {
  const needs = { version: '', word: name, nextWord: kind, onFound: () => undefined };
  const command = createGrammar(needs).commands.find((candidate) => candidate.name() === name);
  if (command === undefined) throw new TypeError(`the grammar has no command ${name}`);
  return command;
}

const commandToKinds = new Map<string, readonly string[]>([
  ['manifest', manifestKinds],
  ['help', ['manifest']],
]);

const pathToWords = new Map<string, readonly string[]>([
  ['manifest', manifestKinds],
  ['help', commandNames],
  ['help manifest', manifestKinds],
  ['completion', shells],
  ['device', deviceActions],
  ['seats', seatsActions.filter((action) => action !== 'list')],
]);

function listPlace(command: Command, path: string): CompletedPlace {
  return { path, words: pathToWords.get(path) ?? [], options: listOptions(command) };
}

function listOptions(command: Command): CompletedOption[] {
  const shown = command.options.filter(({ hidden }) => !hidden);
  const options = shown.map((option) => ({
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
