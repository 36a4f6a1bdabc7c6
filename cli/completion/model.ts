import { type CommandRow, loadCommands, type LoadedCommand } from '../command/command.ts';
import { listOptions } from '../command/options.ts';
import { type Flag } from '../flags/flag.ts';

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
  readonly takes: Flag['takes'];
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
export async function listCompletions(table: readonly CommandRow[]): Promise<CompletedCommand[]> {
  const found = (await loadCommands(table)).map(toCompleted);
  const help = found.find(({ path }) => path === 'help');
  // Behind help stand the words of all commands, and of their kinds.
  return found.map((command) => (command === help ? withTopics(command, found) : command));
}

function toCompleted(loaded: LoadedCommand): CompletedCommand {
  const { row, command } = loaded;
  const words = command.words?.choices ?? command.argument?.choices ?? [];
  const kinds = [...(command.heeds === undefined ? [] : (command.kinds?.keys() ?? []))];
  return {
    path: row.name,
    meaning: row.summary,
    words,
    options: listCompletedOptions(loaded),
    kinds: kinds.map((kind) => ({
      path: `${row.name} ${kind}`,
      words: [],
      options: listCompletedOptions(loaded, kind),
    })),
  };
}

function withTopics(help: CompletedCommand, commands: readonly CompletedCommand[]): CompletedCommand {
  const withKinds = commands.filter(({ kinds }) => kinds.length > 0);
  return {
    ...help,
    words: commands.map(({ path }) => path),
    kinds: withKinds.map(({ path, words }) => ({ path: `help ${path}`, words, options: help.options })),
  };
}

/** All places: the commands and their kinds. */
export function listPlaces(commands: readonly CompletedCommand[]): CompletedPlace[] {
  return commands.flatMap((command) => [command, ...command.kinds]);
}

function listCompletedOptions(loaded: LoadedCommand, kind = ''): CompletedOption[] {
  const options = listOptions(loaded, kind).flatMap(({ flag, takes, explain }): CompletedOption[] => {
    const { term, meaning, isShown, choices } = explain();
    return isShown ? [{ flag, meaning, takes, value: findValue(term, choices) }] : [];
  });
  const unknown = { kind: 'unknown' } as const;
  return [...options, { flag: '--help', meaning: 'print this help', takes: 'nothing', value: unknown }];
}

function findValue(term: string, words: readonly string[]): CompletedValue {
  if (words.length > 0) return { kind: 'words', words };
  if (/ (?:FILE|PATH)$/.test(term)) return { kind: 'file' };
  return { kind: term.endsWith(' FOLDER') ? 'folder' : 'unknown' };
}
