import { type Config } from '../../config/config.ts';
import { type Environment } from '../../config/environment.ts';
import { type Flags } from '../../config/flags.ts';
import { type OptionName } from '../../config/options.ts';
import { type Given, type FlagSet, type OptionsOf } from '../flags/flag.ts';
import { type Screen } from '../format/text/screen.ts';

/** What a command has whatever it does. A failure is thrown, as a VipnatError, and the program prints it. */
export interface PlainContext<Options> {
  /** What its flags and words say. */
  readonly options: Options;
  /** The words that are no flags. */
  readonly words: readonly string[];
  readonly environment: Environment;
  /** What can be shown on standard output now: a terminal may change its size. */
  readonly screen: () => Screen;
  /** Writes to standard output as it is, no newline added. What the command was asked for, nothing else. */
  readonly stdout: (text: string) => void;
  /** Writes to standard error as it is, no newline added. Everything a person reads beside the answer. */
  readonly stderr: (text: string) => void;
  /** All commands, for one that prints what there is. */
  readonly table: readonly CommandRow[];
}

/** What a command that works by the configuration has. */
export interface CommandContext<Options> extends PlainContext<Options> {
  /** Checked, as the command asks for it. Without `noVip` in its check, it may name no VIP. */
  readonly config: Config;
  /** The options of the configuration that the user gave, in whatever way. */
  readonly given: ReadonlySet<OptionName>;
  /** What flags gave of the configuration. */
  readonly flags: Flags;
}

/** The words of a command that are no flags. */
export interface Words<Options> {
  /** How many belong to the command. */
  readonly count: (words: readonly string[]) => number;
  /** What the first one can be, for completion. */
  readonly choices?: readonly string[];
  readonly read: (words: readonly string[], reading: WordsReading) => Options;
}

/** What words are read with. */
export interface WordsReading {
  /** Flag, in camelCase, to what it was given. */
  readonly all: Readonly<Record<string, Given>>;
  /** Words beside an unknown option may be its values: then only the option is told. */
  readonly isUnclear: boolean;
  /** Takes one line for each problem. */
  readonly report: (problem: string) => void;
}

interface Shared<FlagsOf extends FlagSet, WordsOf extends object> {
  /** What its own help adds to the summary. */
  readonly addition?: string;
  /** What follows its name: `[options]` unless given. */
  readonly usage?: string;
  /** What its help says below the options: examples first, exit statuses last. */
  readonly help: string;
  readonly flags: FlagsOf;
  readonly words?: Words<WordsOf>;
}

/** A command for which no option of the configuration counts. Without `words`, its command line is refused at the first mistake. */
export interface PlainCommand<
  FlagsOf extends FlagSet = FlagSet,
  WordsOf extends object = object,
> extends Shared<FlagsOf, WordsOf> {
  readonly heeds?: never;
  /** The one word that it needs, what to say without it, and what it can be. */
  readonly argument?: {
    readonly name: string;
    readonly missing: string;
    readonly choices?: readonly string[];
  };
  /** Answers the exit status. */
  run(context: PlainContext<OptionsOf<FlagsOf> & WordsOf>): Promise<number>;
}

/** What a configuration is held against. */
export interface CheckFacts<Options> {
  readonly options: Options;
  readonly config: Config;
  /** Options whose value could not be read: nobody calls them missing. */
  readonly unreadable: ReadonlySet<OptionName>;
  /** The command's flags that could not be read. */
  readonly unread: ReadonlySet<string>;
  /** What to say where no virtual IP is given and one is needed, with a hint; nothing where there is one. */
  readonly noVip: (hint?: string) => readonly string[];
}

/** A command that works by the configuration. It takes all options of the configuration, so that the agent's can be pasted. */
export interface ConfiguredCommand<
  FlagsOf extends FlagSet = FlagSet,
  WordsOf extends object = object,
> extends Shared<FlagsOf, WordsOf> {
  readonly argument?: never;
  /** The options of the configuration that make a difference to it. */
  readonly heeds: readonly OptionName[];
  /** The kinds of what it does, which its first word names, to the options that make a difference to each. */
  readonly kinds?: ReadonlyMap<string, readonly OptionName[]>;
  /** Whether the configuration is for another host: then files that it names are not looked for on this one. */
  readonly isForElsewhere?: boolean;
  /** Which virtual IPs of a running agent it is about, where it tells how this host is; null where it asks no agent. */
  agentScope?(options: OptionsOf<FlagsOf> & WordsOf): 'host' | 'given' | null;
  /** Whether it has a log, in whose format it fails. What ends by itself speaks to a person, or to the person's script. */
  hasLog?(options: OptionsOf<FlagsOf> & WordsOf): boolean;
  /** What it lacks in a configuration that may be right in itself, one line each. */
  check?(facts: CheckFacts<OptionsOf<FlagsOf> & WordsOf>): readonly string[];
  /** Answers the exit status. */
  run(context: CommandContext<OptionsOf<FlagsOf> & WordsOf>): Promise<number>;
}

/** A command, whatever its flags. */
export type Command = PlainCommand | ConfiguredCommand;

/** A command that works by the configuration, as it is declared: its handlers get what its flags are read as. */
export function defineCommand<FlagsOf extends FlagSet, WordsOf extends object = object>(
  command: ConfiguredCommand<FlagsOf, WordsOf>,
): ConfiguredCommand {
  return command;
}

/** A command without configuration, likewise. */
export function definePlainCommand<FlagsOf extends FlagSet, WordsOf extends object = object>(
  command: PlainCommand<FlagsOf, WordsOf>,
): PlainCommand {
  return command;
}

/** What the program knows of a command before it loads it. */
export interface CommandRow {
  readonly name: string;
  /** Its heading in the program's help. */
  readonly group: string;
  /** What it does, as a phrase. */
  readonly summary: string;
  readonly load: () => Promise<Command>;
}

/** A command that is loaded, with what its row says. */
export interface LoadedCommand {
  readonly row: CommandRow;
  readonly command: Command;
}

/** Loads all these commands, for what prints about them. */
export async function loadCommands(rows: readonly CommandRow[]): Promise<LoadedCommand[]> {
  return await Promise.all(rows.map(async (row) => ({ row, command: await row.load() })));
}
