import type * as z from 'zod/mini';
import { safeParse } from 'zod/mini';
import { nameFlag } from '../../config/options.ts';
import { quoteText, splitList } from '../../config/setting.ts';

/** What the command line has for a flag: a switch true, `--no-…` false, another its last text, a list all its texts. */
export type Given = boolean | string | readonly string[] | undefined;

/** What a flag is read with. */
export interface FlagReading {
  /** `--watch`. */
  readonly flag: string;
  /** Flag, in camelCase, to what it was given, for all flags of the command. */
  readonly all: Readonly<Record<string, Given>>;
  /** The command's words that are no flags. */
  readonly words: readonly string[];
  /** Takes one line for each problem. What is then read does not count. */
  readonly report: (problem: string) => void;
}

/** One flag of one command: how it is written, what help says of it, and how it is read. */
export interface Flag<Value = unknown> {
  /** Whether it has a value: none, one behind `=` only, or one in any way. */
  readonly takes: 'nothing' | 'optional' | 'value';
  /** What stands for its value in help: `FORMAT`. Empty for a switch. */
  readonly value: string;
  /** What it is for, as a phrase. */
  readonly meaning: string;
  /** Whether it can be repeated. */
  readonly isList?: boolean;
  /** The words that its value can be, where these are few. */
  readonly choices?: readonly string[];
  /** What `--no-…` is for, where it can be written so. */
  readonly negation?: string;
  /** The kinds that it is for, of a command that has kinds; empty text for help without one. All unless given. */
  readonly kinds?: readonly string[];
  readonly read: (given: Given, reading: FlagReading) => Value;
}

/** A command's flags, by their names in camelCase, in the order of help. */
export type FlagSet = Readonly<Record<string, Flag>>;

/** What flags are read as. */
export type OptionsOf<Flags extends FlagSet> = {
  readonly [Name in keyof Flags]: Flags[Name] extends Flag<infer Value> ? Value : never;
};

type Reader<Text, Value> = (text: Text, reading: FlagReading) => Value;

/** A switch. */
export function toggle(meaning: string): Flag<boolean> {
  return { takes: 'nothing', value: '', meaning, read: (given) => given === true };
}

/** A flag with a value; null where it is not given, unless `read` says otherwise. */
export function text(value: string, meaning: string): Flag<string | null>;
export function text<Value>(
  value: string,
  meaning: string,
  read: Reader<string | undefined, Value>,
): Flag<Value>;
export function text(
  value: string,
  meaning: string,
  read: Reader<string | undefined, unknown> = (given) => given ?? null,
): Flag {
  return { takes: 'value', value, meaning, read: (given, reading) => read(given as string, reading) };
}

/** A flag whose value can be left out: then it is read as true. */
export function optional<Value>(
  value: string,
  meaning: string,
  read: Reader<string | true | undefined, Value>,
): Flag<Value> {
  return { takes: 'optional', value, meaning, read: (given, reading) => read(given as string, reading) };
}

/** A flag that can be repeated; all its texts, unless `read` says otherwise. */
export function list(value: string, meaning: string): Flag<readonly string[]>;
export function list<Value>(
  value: string,
  meaning: string,
  read: Reader<readonly string[], Value>,
): Flag<Value>;
export function list(
  value: string,
  meaning: string,
  read: Reader<readonly string[], unknown> = (given) => given,
): Flag {
  const readTexts: Flag['read'] = (given, reading) => read((given ?? []) as readonly string[], reading);
  return { takes: 'value', value, meaning, isList: true, read: readTexts };
}

/** The same flags, for some kinds of a command only. */
export function forKinds<Flags extends FlagSet>(kinds: readonly string[], flags: Flags): Flags {
  const entries = Object.entries(flags).map(([name, flag]) => [name, { ...flag, kinds }]);
  return Object.fromEntries(entries) as Flags;
}

/** Reads a text as it is; `preset` where there is none. */
export function orElse(preset: string): Reader<string | undefined, string> {
  return (given) => given ?? preset;
}

/** Reads a text by a schema; `preset` where there is none. */
export function bySchema<Value>(
  schema: z.ZodMiniType<Value>,
  preset: Value,
  example: string,
): Reader<string | undefined, Value> {
  return (given, { flag, report }) => {
    if (given === undefined) return preset;
    const result = safeParse(schema, given);
    if (result.success) return result.data;
    for (const { message } of result.error.issues) {
      report(`${flag} ${quoteText(given)} ${message}. Example: ${flag} ${example}`);
    }
    return preset;
  };
}

/** Reads each value of a list by a schema, commas or blanks between them. */
export function eachBySchema<Value>(
  schema: z.ZodMiniType<Value>,
  example: string,
): Reader<readonly string[], readonly Value[]> {
  const readOne = bySchema<Value | null>(schema, null, example);
  return (texts, reading) =>
    texts
      .flatMap(splitList)
      .map((each) => readOne(each, reading))
      .filter((value) => value !== null);
}

/** Reports a text that is none of some words. */
export function reportChoice(
  given: string,
  { choices, example }: { readonly choices: readonly string[]; readonly example: string },
  { flag, report }: FlagReading,
): void {
  report(`${flag} ${quoteText(given)} is none of ${choices.join(', ')}. Example: ${flag} ${example}`);
}

/** Reads all flags, in their order; `unread` has the names of those with a problem. */
export function readFlags<Flags extends FlagSet>(
  flags: Flags,
  all: FlagReading['all'],
  words: readonly string[] = [],
): { readonly options: OptionsOf<Flags>; readonly problems: string[]; readonly unread: ReadonlySet<string> } {
  const problems: string[] = [];
  const unread = new Set<string>();
  const options = Object.entries(flags).map(([name, flag]) => {
    const report = (problem: string) => {
      problems.push(problem);
      unread.add(name);
    };
    return [name, flag.read(all[name], { flag: nameFlag(name), all, words, report })];
  });
  return { options: Object.fromEntries(options) as OptionsOf<Flags>, problems, unread };
}
