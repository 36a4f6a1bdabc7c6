import {
  type OptionName,
  nameFlag,
  optionNames,
  describeOption,
  groupToHeading,
  listChoices,
  schema,
  type Values,
  type Config,
  splitList,
  duration,
} from '../config/options.ts';
import { quoteText } from '../lib/text.ts';
import { formatEndpoint } from '../lib/net.ts';
import type { ConfigReading, Environment, Flags } from '../config/load.ts';
import { type Screen, type ColourChoice, colourChoices } from './output.ts';
import type * as z from 'zod/mini';
import { safeParse } from 'zod/mini';

/** An option that a command takes: a flag of its own, or one of the configuration. */
export interface CommandOption extends Required<Pick<Flag, 'takes' | 'isList'>> {
  /** `--format`. */
  readonly flag: string;
  /** Whether it belongs to the configuration. */
  readonly isConfigured: boolean;
  /** What help says of it. Nobody but help needs it, so it is made when it is asked for. */
  readonly explain: () => OptionHelp;
}

interface OptionHelp extends Required<Pick<Flag, 'meaning' | 'choices'>> {
  /** `--format FORMAT`. */
  readonly term: string;
  readonly heading: string;
  /** Whether it makes a difference to what the help is about. */
  readonly isShown: boolean;
}

/** All options that a command takes, its own first; `kind` is what its help is about, where it has kinds. */
export function listOptions({ row, command }: LoadedCommand, kind = ''): CommandOption[] {
  const heading = nameOwnGroup(row.name);
  const own = Object.entries(command.flags).flatMap(([name, flag]) =>
    toOwnOptions(name, flag, heading, kind),
  );
  if (command.configOptions === undefined) return own;
  const followed = command.kinds?.get(kind) ?? command.configOptions;
  return [...own, ...listConfigOptions(followed, `${row.name} ${kind}`.trim()), fileOption];
}

/** What `vipnat manifest` can print. */
export const manifestKinds = ['daemonset', 'static-pod', 'keepalived', 'systemd', 'services'] as const;

/** What `vipnat help` lists besides commands; of these, doctor's checks have their command's name. */
export const helpTopics = ['errors', 'doctor', 'events', 'metrics', 'options', 'reasons'] as const;

/** What a command's own help says that it does. */
export function describeCommand({ row, command }: LoadedCommand): string {
  return command.addition === undefined ? row.summary : `${row.summary}; ${command.addition}`;
}

/** The heading of the options that only this command has. */
export function nameOwnGroup(name: string): string {
  return `Options of ${name}:`;
}

function toOwnOptions(name: string, flag: Flag, heading: string, kind: string): CommandOption[] {
  const { takes, value, meaning, isList = false, choices = [], negation, kinds } = flag;
  const isShown = kinds?.includes(kind) ?? true;
  const option = { flag: nameFlag(name), takes, isList, isConfigured: false };
  const term = { nothing: '', optional: `[=${value}]`, value: ` ${value}` }[takes];
  const explain = () => ({ term: `${option.flag}${term}`, meaning, heading, isShown, choices });
  if (negation === undefined) return [{ ...option, explain }];
  const negated = `--no-${name}`;
  const explainNegated = () => ({ ...explain(), term: negated, meaning: negation, choices: [] });
  return [
    { ...option, explain },
    { ...option, flag: negated, takes: 'nothing', explain: explainNegated },
  ];
}

/** In the order of their groups, as the help of the topic lists them. */
function listConfigOptions(followed: readonly OptionName[], topic: string): CommandOption[] {
  const groupToNames = Map.groupBy(optionNames, (name) => describeOption(name).group);
  const groups = Object.keys(groupToHeading) as (keyof typeof groupToHeading)[];
  return groups.flatMap((group) =>
    (groupToNames.get(group) ?? []).map((name) => ({
      flag: nameFlag(name),
      takes: 'value',
      isList: describeOption(name).isList === true,
      isConfigured: true,
      explain: () => ({
        ...explainConfigOption(name, topic),
        heading: groupToHeading[group],
        isShown: followed.includes(name),
      }),
    })),
  );
}

const fileOption: CommandOption = {
  flag: '--config',
  takes: 'value',
  isList: false,
  isConfigured: true,
  explain: () => ({
    term: '--config FILE',
    meaning: 'a YAML file with these options',
    heading: groupToHeading.host,
    isShown: true,
    choices: [],
  }),
};

/** What help says of an option of the configuration: its term, its meaning with choices and default, and these choices. */
export function explainConfigOption(name: OptionName, topic = ''): Omit<OptionHelp, 'heading' | 'isShown'> {
  const { argument, elsewhere = {}, ...general } = describeOption(name);
  const choices = listChoices(name);
  const flag = nameFlag(name);
  const { meaning, preset = schema.parse({})[name] } = { ...general, ...elsewhere[topic] };
  if (choices.length === 0)
    return { term: `${flag} ${argument}`, meaning: `${meaning}${formatDefault(preset)}`, choices };
  const words = choices.map((choice) => (choice === preset ? `${choice} (default)` : choice));
  const value = flag.slice(flag.lastIndexOf('-') + 1).toUpperCase();
  return { term: `${flag} ${value}`, meaning: `${meaning}: ${words.join(', ')}`, choices };
}

/** Durations are numbers of milliseconds. */
function formatDefault(preset: Values[OptionName]): string {
  if (preset === null || Array.isArray(preset)) return '';
  if (typeof preset === 'object') return ` (default: ${formatEndpoint(preset)})`;
  return ` (default: ${typeof preset === 'number' ? `${preset}ms` : preset})`;
}

/** What a command has whatever it does. A failure is thrown, as a VipnatError, and the program prints it. */
export interface PlainContext<Options> {
  readonly options: Options;
  /** The words that are no flags. */
  readonly words: readonly string[];
  readonly environment: Environment;
  /** What can be shown on standard output now: a terminal may change its size. */
  readonly screen: () => Screen;
  /** Writes to standard output as it is, no newline added. What the command was asked for, nothing else. */
  readonly stdout: (text: string) => void;
  /** Writes to standard error as it is, no newline added. Everything for a person that is not the answer. */
  readonly stderr: (text: string) => void;
  /** All commands, for one that prints what there is. */
  readonly table: readonly CommandRow[];
}

/** What a command that works by the configuration has. */
export interface CommandContext<Options> extends PlainContext<Options>, Pick<ConfigReading, 'given'> {
  /** Checked, as the command asks for it. Without `noVip` in its check, it may name no VIP. */
  readonly config: Config;
  /** What flags gave of the configuration. */
  readonly flags: Flags;
}

/** The words of a command that are no flags. */
export interface Words<Options> {
  /** How many belong to the command; one unless given. */
  readonly count?: (words: readonly string[]) => number;
  /** What the first one can be, for completion. */
  readonly choices?: readonly string[];
  readonly read: (words: readonly string[], reading: WordsReading) => Options;
}

/** What words are read with. */
export interface WordsReading extends Pick<FlagReading, 'all' | 'report'> {
  /** Words next to an unknown option may be its values: then only the option is reported. */
  readonly isUnclear: boolean;
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

/** A command for which no option of the configuration counts. */
interface PlainCommand<FlagsOf extends FlagSet = FlagSet, WordsOf extends object = object> extends Shared<
  FlagsOf,
  WordsOf
> {
  readonly configOptions?: never;
  /** Answers the exit status. */
  run(context: PlainContext<OptionsOf<FlagsOf> & WordsOf>): Promise<number>;
}

/** What a configuration is held against. */
interface CheckFacts<Options> extends Pick<ConfigReading, 'config' | 'unreadable'> {
  readonly options: Options;
  /** The command's flags that could not be read. */
  readonly unread: ReadonlySet<string>;
  /** What to say where no virtual IP is given and one is needed, with a hint; nothing where there is one. */
  readonly noVip: (hint?: string) => readonly string[];
  /** What to say of virtual IPs that this host shows to be wrong on every host, for a command that places them. */
  readonly unfitVips: () => readonly string[];
}

/** A command that works by the configuration. It takes all options of the configuration, so that the agent's can be pasted. */
export interface ConfiguredCommand<
  FlagsOf extends FlagSet = FlagSet,
  WordsOf extends object = object,
> extends Shared<FlagsOf, WordsOf> {
  /** The options of the configuration that its help lists: those that make a difference to it. */
  readonly configOptions: readonly OptionName[];
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

/** What the command line has for a flag: a switch true, `--no-…` false, another its last text, a list all its texts. */
export type Given = boolean | string | readonly string[] | undefined;

interface FlagReading {
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
  /** Whether it has a value: none, one behind `=` only, or one in either form. */
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
type FlagSet = Readonly<Record<string, Flag>>;

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
export function text<Value = string | null>(
  value: string,
  meaning: string,
  read: Reader<string | undefined, Value> = (given) => (given ?? null) as Value,
): Flag<NoInfer<Value>> {
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
export function list<Value = readonly string[]>(
  value: string,
  meaning: string,
  read: Reader<readonly string[], Value> = (given) => given as Value,
): Flag<NoInfer<Value>> {
  const readTexts: Reader<Given, Value> = (given = [], reading) => read(given as string[], reading);
  return { takes: 'value', value, meaning, isList: true, read: readTexts };
}

/** The same flags, for some kinds of a command only, which the prefix of their meanings may say. */
export function forKinds<Flags extends FlagSet>(kinds: readonly string[], flags: Flags, prefix = ''): Flags {
  const limit = (flag: Flag) => ({ ...flag, kinds, meaning: `${prefix}${flag.meaning}` });
  return Object.fromEntries(Object.entries(flags).map(([name, flag]) => [name, limit(flag)])) as Flags;
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
    for (const { message } of result.error.issues) report(refuseValue(flag, given, message, example));
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

/** A text as one of some words; null where it is none, which is then reported with an example. */
export function readChoice<Choice extends string>(
  given: string,
  choices: readonly Choice[],
  example: string,
  { flag, report }: FlagReading,
): Choice | null {
  const found = choices.find((choice) => choice === given) ?? null;
  if (found === null) report(refuseValue(flag, given, `is none of ${choices.join(', ')}`, example));
  return found;
}

/** What is said of a value that a flag cannot have: a sentence with its fault, and another with a value that works. */
export function refuseValue(flag: string, given: string, fault: string, example: string | number): string {
  return `${flag} ${quoteText(given)} ${fault}. Example: ${flag} ${example}`;
}

/** The namespace of what Services need: it is vipnat's alone, because whoever may write its Leases says which nodes live. */
export const servicesNamespace = 'vipnat-system';

/** `--system-namespace` of a command that shows what is in the API; null to find it. */
export const systemNamespace = text(
  'NAME',
  "the namespace of vipnat's own objects (default: where a controller's Lease is)",
);

/** `--context` of a command that takes a person's credentials; null for the current context. */
export const context = text('NAME', "the kubeconfig's context (default: its current one)");

/** `--namespace` of a program of Services; the meaning says what is in it. */
export function namespaceFlag(meaning: string): Flag<string> {
  return text('NAME', `${meaning} (default: ${servicesNamespace})`, (given = servicesNamespace) => given);
}

/** What is no name of a namespace (RFC 1123, a label). */
export function checkNamespace(
  namespace: string | null,
  example = servicesNamespace,
  flag = '--namespace',
): string[] {
  if (namespace === null || /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(namespace)) return [];
  const rule = 'is not a namespace: use 1 to 63 of a-z, 0-9 and -, without - at either end';
  return [refuseValue(flag, namespace, rule, example)];
}

/** Flag, in camelCase, to what it is given: null and false for nothing, true for a switch, a list for one flag each. */
type FlagValues = Readonly<Record<string, string | number | boolean | null | readonly string[]>>;

/** The words of a command line that give these flags, `--image=a/b:1`, in this order. */
export function formatFlags(values: FlagValues): string[] {
  return Object.entries(values).flatMap(([name, value]) =>
    [value]
      .flat()
      .filter((one) => one !== null && one !== false)
      .map((one) => (one === true ? nameFlag(name) : `${nameFlag(name)}=${one}`)),
  );
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

/** What a command that tells how this host is lists: it takes the others only to know the configuration, as the agent has it. */
export const hostOptions = ['vip', 'kubeconfig', 'logLevel'] as const satisfies readonly OptionName[];

/** `--json`. */
export const json = toggle('print JSON');

/** `--color` and `--no-color`, for commands whose words have states to colour. */
export const color: Flag<ColourChoice> = {
  ...text<ColourChoice>(
    'WHEN',
    `when to colour: ${colourChoices.join(', ').replace(',', ' (default),')}`,
    readColour,
  ),
  choices: colourChoices,
  negation: 'the same as --color never',
};

/** False is `--no-color`. */
function readColour(given: string | false | undefined, reading: Parameters<Flag['read']>[1]): ColourChoice {
  if (given === false) return 'never';
  return (given === undefined ? null : readChoice(given, colourChoices, 'always', reading)) ?? 'auto';
}

const interval = duration(100, 3_600_000);

/** `--watch`: after how many milliseconds to print again, `presetMs` without a value; null to print once. */
export function watch(presetMs: number): Flag<number | null> {
  const meaning = `print again every so many seconds (default: ${presetMs / 1000})`;
  return optional('SECONDS', meaning, (given, { flag, report }) => {
    if (given === undefined || given === true) return given === true ? presetMs : null;
    // A number without its unit is of seconds.
    const result = safeParse(interval, /\d$/.test(given) ? `${given}s` : given);
    if (result.success) return result.data;
    const [{ message } = { message: '' }] = result.error.issues;
    const complaint = message.startsWith('is not between') ? message : 'is not a number of seconds';
    report(`${flag} ${quoteText(given)} ${complaint}. Example: ${flag}=5`);
    return null;
  });
}
