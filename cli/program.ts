import {
  formatError,
  writeStderr,
  writeStdout,
  type Terminal,
  type ErrorForm,
  proseWidth,
  type ColourChoice,
  type Screen,
  readScreen,
  wrapEpilogue,
} from './output.ts';
import { fstatSync } from 'node:fs';
import { isatty } from 'node:tty';
import { constants } from 'node:os';
import { basename } from 'node:path';
import { type ConfigReading, configVariable, readConfig, type Flags } from '../config/load.ts';
import { version, toAscii, exitStatuses, toPrintableLine, suggest, quoteText } from '../lib/text.ts';
import {
  type PlainContext,
  type ConfiguredCommand,
  type LoadedCommand,
  type Given,
  readFlags,
  listOptions,
  describeCommand,
  nameOwnGroup,
  type Command as ServedCommand,
  type CommandOption,
  helpTopics,
} from './command.ts';
import { table, commandNames, programSummary, programHelp, headingToSummaries } from './table.ts';
import { VipnatError } from '../lib/errors.ts';
import { isUsed } from '../lib/api/balancer.ts';
import { Command, CommanderError, Option } from 'commander';
import { optionNames, nameFlag, describeOption } from '../config/options.ts';

/** Runs the program as this process, which then ends by itself: nothing written is lost. */
export async function runProcess(): Promise<void> {
  if (process.pid === 1) endOnSignals();
  process.on('uncaughtException', (error) => {
    const { text, exitCode } = formatError(error, {
      isDebug: process.env['VIPNAT_LOG_LEVEL'] === 'debug',
      isJson: false,
    });
    writeStderr(text);
    process.exit(exitCode);
  });
  process.exitCode = await runProgram({
    args: process.argv.slice(2),
    environment: process.env,
    terminal: readTerminal,
    stdout: writeStdout,
    stderr: writeStderr,
    // A single executable has its own name in argv0 alone.
    isPlugin: [process.argv[1], process.argv0].some((path) => basename(path ?? '') === pluginName),
  });
}

/** kubectl finds the program by this name for `kubectl vipnat`. */
const pluginName = 'kubectl-vipnat';
const ownCommand = new RegExp(`(?<!kubectl )\\bvipnat (?=(?:COMMAND|${commandNames.join('|')})\\b)`, 'g');

/** Help and errors of a plugin name commands as a user of kubectl types them. */
function nameCommands(text: string, { isPlugin = false }: ProgramHost): string {
  return isPlugin ? text.replaceAll(ownCommand, 'kubectl vipnat ') : text;
}

/** Opening the stream, and node:tty, take time, which only terminals are worth. */
function readTerminal(): Terminal {
  if (!fstatSync(1).isCharacterDevice() || !isatty(1)) return { isTerminal: false, columns: null };
  const [columns] = process.stdout.getWindowSize();
  return { isTerminal: true, columns: columns > 0 ? columns : null };
}

/** The kernel keeps signals from a container's first process that has no handler for them. */
function endOnSignals(): void {
  for (const name of ['SIGTERM', 'SIGINT'] as const)
    process.on(name, () => process.exit(128 + constants.signals[name]));
}

interface ProgramHost extends Pick<PlainContext<object>, 'environment' | 'stdout' | 'stderr'> {
  /** The command line, without node and the script. */
  readonly args: readonly string[];
  /** What standard output is; a file or a pipe unless given. */
  readonly terminal?: () => Terminal;
  /** Whether it runs as a plugin of kubectl. */
  readonly isPlugin?: boolean;
}

/** Runs one command line to its end and answers the exit status. Never rejects: what fails is printed to stderr. */
export async function runProgram(host: ProgramHost): Promise<number> {
  let form: ErrorForm = { isDebug: host.environment['VIPNAT_LOG_LEVEL'] === 'debug', isJson: false };
  try {
    const { width, isUnicode } = readHostScreen(host, 'auto');
    const call = await parseCommandLine(host.args, version, width ?? proseWidth);
    if (call.kind === 'text') {
      host.stdout(nameCommands(isUnicode ? call.text : toAscii(call.text), host));
      return exitStatuses.done;
    }
    const { command } = call;
    refusePlatform(call);
    if (command.configOptions === undefined) {
      refuseProblems(call.problems);
      return await command.run(toContext(call, host));
    }
    // Before the configuration is read: what a flag or a variable says.
    form = toForm(command, call, {
      logLevel: call.flags['logLevel'] ?? host.environment['VIPNAT_LOG_LEVEL'],
      logFormat: call.flags['logFormat'] ?? host.environment['VIPNAT_LOG_FORMAT'],
    });
    const { config, given } = await checkConfig(command, call, host);
    form = toForm(command, call, config);
    return await command.run({ ...toContext(call, host), config, given, flags: call.flags });
  } catch (error) {
    const { text, exitCode } = formatError(error, form);
    host.stderr(nameCommands(text, host));
    return exitCode;
  }
}

const hostCommands = /^(?:run|drain|undrain|cleanup|keepalived|balancer)$/;

/** What is about this host needs Linux; what asks the Kubernetes API, or prints files, does not. */
function refusePlatform({ row: { name }, command, options }: CallInvocation): void {
  const isAboutHost = (command.configOptions !== undefined && command.agentScope?.(options)) ?? null;
  if (process.platform === 'linux' || !(isAboutHost || hostCommands.test(name))) return;
  throw new VipnatError('NOT_LINUX', `vipnat ${name} runs on a Linux node, and this is ${process.platform}`);
}

function toContext({ options, words }: CallInvocation, host: ProgramHost) {
  const { environment, stdout, stderr } = host;
  const { color = 'auto' } = options as { readonly color?: ColourChoice };
  const screen = () => readHostScreen(host, color);
  return { options, words, environment, screen, stdout, stderr, table };
}

function refuseProblems(problems: readonly string[]): void {
  if (problems.length > 0) throw new VipnatError('CONFIG_INVALID', problems.join('\n'));
}

function readHostScreen({ environment, terminal }: ProgramHost, colour: ColourChoice): Screen {
  return readScreen(environment, terminal?.() ?? { isTerminal: false, columns: null }, colour);
}

function toForm(
  command: ConfiguredCommand,
  { options }: CallInvocation,
  { logLevel, logFormat }: { readonly logLevel: unknown; readonly logFormat: unknown },
): ErrorForm {
  const hasLog = command.hasLog?.(options) === true;
  return { isDebug: logLevel === 'debug', isJson: hasLog && logFormat === 'json' };
}

async function checkConfig(
  command: ConfiguredCommand,
  call: CallInvocation,
  { environment, stderr }: ProgramHost,
): Promise<ConfigReading> {
  const variable = environment[configVariable];
  const file = call.file ?? (variable === '' ? undefined : variable);
  const { isForElsewhere = false } = command;
  const sources = { flags: call.flags, environment, file, isForElsewhere };
  const scope = command.agentScope?.(call.options) ?? null;
  // Loaded late: what prints rules offline asks nobody.
  const { reading, notes, reason } =
    scope === null
      ? { reading: await readConfig(sources), notes: [], reason: null }
      : await (await import('../agent/main.ts')).readConfigWithAgent(sources, scope);
  const { explainUnfitHere } = await import('../lib/kernel/host.ts');
  const mayBeForServices = scope !== null && reading.config.vips.length === 0;
  const isForServices =
    mayBeForServices && isUsed(await (await import('../balancer/main.ts')).inspectBalancer());
  refuseProblems([
    ...call.problems,
    ...reading.problems,
    ...findCommandProblems({ ...call, command }, reading, { reason, isForServices }, explainUnfitHere),
  ]);
  for (const note of notes) stderr(`${toPrintableLine(note)}\n`);
  return reading;
}

/**
 * What a command lacks in a configuration that may be right in itself, one line each. What could not be read is not called
 * missing. `reason`: why the running agent was of no help; null where it was, or nobody asked it. `isForServices`: this host has Services,
 * so that what tells how it is may be about them alone.
 */
export function findCommandProblems(
  call: Pick<CallInvocation, 'options' | 'unread' | 'isMisread'> & { command: ConfiguredCommand },
  { config, unreadable }: Pick<ConfigReading, 'config' | 'unreadable'>,
  { reason, isForServices } = { reason: null as string | null, isForServices: false },
  explainHere: (address: string) => string | null = () => null,
): readonly string[] {
  const { command, options, unread } = call;
  // Of a command line that could not be read, nobody knows what it lacks.
  const isKnown = !call.isMisread && !unreadable.has('vip');
  const isLacking = config.vips.length === 0 && isKnown && !isForServices;
  const why = reason === null ? '' : `, and ${reason}`;
  const noVip = (hint = '') =>
    isLacking ? [`no virtual IP given${why}${hint}. Example: --vip 10.0.0.50:6443`] : [];
  const unfitVips = () =>
    config.vips.flatMap(({ address }) => {
      const why = explainHere(address);
      return why === null ? [] : [`--vip ${address} ${why}. A virtual IP is a free address of this network`];
    });
  return command.check?.({ options, config, unreadable, unread, noVip, unfitVips }) ?? [];
}

/** A command, and what its own flags and words come to. */
export interface CallInvocation extends LoadedCommand {
  readonly kind: 'call';
  readonly options: Readonly<Record<string, unknown>>;
  readonly words: readonly string[];
  /** What flags gave of the configuration, apart from the command's own. */
  readonly flags: Flags;
  /** What --config names. */
  readonly file: string | undefined;
  /** What is wrong with the words themselves, one line each; what the values come to is checked later. */
  readonly problems: readonly string[];
  /** The command's flags that could not be read. */
  readonly unread: ReadonlySet<string>;
  /** Whether it has a word or an option that the command does not have. */
  readonly isMisread: boolean;
}

/**
 * Reads the command line, without the program's name; a text is help or the version, to be printed as it is. `width` is how many
 * columns help may have: 80 unless given. Rejects as CONFIG_INVALID where the command line is ambiguous: an unknown command, or an
 * option without its value.
 */
export async function parseCommandLine(
  given: readonly string[],
  version: string,
  width: number = proseWidth,
): Promise<{ readonly kind: 'text'; readonly text: string } | CallInvocation> {
  const words = expandHelp(given);
  const refusal = refuseFirstWord(words[0]);
  if (refusal !== null) throw new VipnatError('CONFIG_INVALID', refusal);
  const program = createProgram(version, width);
  const row = table.find(({ name }) => name === words[0]);
  if (row === undefined) {
    addRows(program);
    return { kind: 'text', text: parse(program, words) };
  }
  const loaded = { row, command: await row.load() };
  const args = expandHabits(words, loaded.command);
  const kind = loaded.command.words?.choices?.find((one) => one === args[1]) ?? '';
  const isHelp = args.includes('--help') || args.includes('-h');
  const added = addCommand(program, { ...loaded, kind, isHelp }, width);
  const text = parse(program, args);
  // Help and the version are commander's to print.
  return text === '' ? toInvocation(loaded, added) : { kind: 'text', text };
}

/** Lets commander read the words; answers what it prints. */
function parse(grammar: Command, args: readonly string[]): string {
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
    if (error.exitCode !== 0) throw new VipnatError('CONFIG_INVALID', explain(error), { cause: error });
  }
  return text;
}

/** What help says of options that a command takes in addition to those that it lists. */
const moreOptions = 'It also takes the options of the agent: vipnat run --help';

/** A command, and whether its help is asked for: nothing is arranged for nobody. */
interface CalledCommand extends LoadedCommand {
  /** Of its kinds, what its help is about; empty for none. */
  readonly kind: string;
  readonly isHelp: boolean;
}

function createProgram(version: string, width: number): Command {
  return new Command('vipnat')
    .description(programSummary)
    .usage('COMMAND [options]')
    .version(version, '-v, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .addHelpText('after', wrapEpilogue(programHelp, width))
    .configureHelp({
      helpWidth: width,
      // A narrow column is better than a terminal's own breaks.
      minWidthToWrap: 20,
      subcommandTerm: (command) => command.name(),
    });
}

function addRows(program: Command): void {
  for (const [heading, summaries] of Object.entries(headingToSummaries)) {
    for (const [name, summary] of Object.entries(summaries))
      program.command(name).helpGroup(heading).summary(summary);
  }
}

function addCommand(program: Command, called: CalledCommand, width: number): Command {
  const added = program.command(called.row.name);
  if (called.isHelp) addHelp(added, called, width);
  const terms = new Map<string, string>();
  for (const option of listOptions(called, called.kind)) {
    const made = toOption(option);
    if (called.isHelp) terms.set(option.flag, explainOption(made, option));
    added.addOption(made);
  }
  added.allowUnknownOption().allowExcessArguments();
  return added.configureHelp({
    ...program.configureHelp(),
    optionTerm: ({ long, flags }) => terms.get(long ?? '') ?? flags,
  });
}

function addHelp(added: Command, { row, command, kind }: CalledCommand, width: number): void {
  const { usage = '[options]', help } = command;
  const isAbout = (line: string) =>
    kind === '' || !/^ {2}vipnat /.test(line) || line.split(' ').includes(kind);
  const text = wrapEpilogue(help.split('\n').filter(isAbout).join('\n'), width);
  added
    .description(kind === '' ? describeCommand({ row, command }) : row.summary)
    .usage(kind === '' ? usage : usage.replace(/^[A-Z]+/, kind))
    .addHelpOption(new Option('-h, --help', 'print this help').helpGroup(nameOwnGroup(row.name)))
    .addHelpText('after', takesMore(command) ? `${text}\n\n${wrapEpilogue(moreOptions, width)}` : text);
}

/** Whether it takes options of the configuration that its help does not list, so that the agent's can be given. */
function takesMore(command: ServedCommand): boolean {
  if (command.configOptions === undefined || command.kinds !== undefined) return false;
  return command.configOptions.length < optionNames.length;
}

function toOption({ flag, takes, isList }: CommandOption): Option {
  const option = new Option(`${flag}${{ nothing: '', optional: ' [value]', value: ' <value>' }[takes]}`);
  const collect = (text: string, before: readonly string[] | undefined) => [...(before ?? []), text];
  return isList ? option.argParser(collect) : option;
}

/** Gives an option its place in help; answers how help writes it. */
function explainOption(option: Option, { explain }: CommandOption): string {
  const { term, meaning, heading, isShown } = explain();
  option.description = meaning;
  option.helpGroup(heading).hideHelp(!isShown);
  return term;
}

/** `help status` is `status --help`; no words at all ask for help too. What is no command is for `help` itself to find. */
function expandHelp(words: readonly string[]): readonly string[] {
  const [first, ...topic] = words;
  if (first === undefined) return ['--help'];
  if (first !== 'help' || topic[0] === '--help' || topic[0] === '-h') return words;
  const isCommand = commandNames.some((name) => name === topic[0] && !helpTopics.some((one) => one === name));
  return topic.length === 0 || isCommand ? [...topic.slice(0, 2), '--help'] : words;
}

const letterToFlag: Readonly<Record<string, string>> = {
  '-n': 'namespace',
  '-A': 'allNamespaces',
  '-w': 'watch',
};

/** JSON is YAML, and nothing is left out of a screen that is narrow. */
const formatToFlags = new Map<string | undefined, string[]>([
  ['json', ['--json']],
  ['yaml', ['--json']],
  ['wide', []],
]);

/** What kubectl's users type, as a command has it. What it does not have is refused later. */
function expandHabits(args: readonly string[], { flags }: ServedCommand): readonly string[] {
  const hasFormats = 'json' in flags && !('output' in flags);
  return args.flatMap((word, at) => {
    const flag = letterToFlag[word] ?? '';
    if (flag in flags) return [nameFlag(flag)];
    if (!hasFormats) return [word];
    // The flag goes with its value, which is in the next word.
    if (outputFlags.has(word)) return formatToFlags.has(args[at + 1]) ? [] : [word];
    const joined = /^(?:-o=?|--output=)(.+)$/.exec(word)?.[1];
    return formatToFlags.get(outputFlags.has(args[at - 1]) ? word : joined) ?? [word];
  });
}

const outputFlags = new Set<string | undefined>(['-o', '--output']);

/** Commander takes options before the command for the program's own. */
function refuseFirstWord(word = ''): string | null {
  if (['--help', '-h', '--version', '-v', ...commandNames].includes(word)) return null;
  const [flag = ''] = word.split('=');
  if (['--config', ...optionNames.map(nameFlag)].includes(flag))
    return `${flag} comes after the command. Example: vipnat plan ${flag} …`;
  if (word.startsWith('-')) return `${quoteText(word)} is not an option. See vipnat --help`;
  if (word === 'get' || word === 'describe')
    return `${word} is not a command. To look: vipnat status, vipnat services, vipnat seats`;
  const hint = suggest(word, commandNames, `Commands: ${commandNames.join(', ')}`);
  return `${quoteText(word)} is not a command. ${hint}`;
}

function explain({ message }: CommanderError): string {
  // commander 15.1: error: option '--vip <value>' argument missing
  const flag = /option '(--[a-z-]+)[^']*' argument missing/.exec(message)?.[1];
  if (flag === undefined) return message.replace(/^error: /, '').replaceAll(/\s+/g, ' ');
  const name = optionNames.find((candidate) => nameFlag(candidate) === flag);
  const example = name === undefined ? '' : `. Example: ${flag} ${describeOption(name).example}`;
  return `${flag} needs a value${example}`;
}

/** Unknown words were accepted first, so that they are reported together with everything else that is wrong. */
function toInvocation(loaded: LoadedCommand, found: Command): CallInvocation {
  const { command } = loaded;
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
  const wordCount = command.words === undefined ? 0 : 1;
  const misread = [...findUnknown(found, command.words?.count?.(words) ?? wordCount), ...problems];
  return {
    ...{ kind: 'call', ...loaded, words },
    options: { ...own.options, ...ofWords },
    flags: all as Flags,
    file: all['config'] as string | undefined,
    problems: [...misread, ...own.problems],
    unread: own.unread,
    isMisread: misread.length > 0,
  };
}

/** Options that a command does not have, and words beyond the first `wordCount`: a sentence for each. */
function findUnknown(command: Command, wordCount: number): string[] {
  const known = command.options.map(({ long }) => long ?? '');
  const help = `See vipnat ${command.name()} --help`;
  const foreign = command.args.filter((word) => word.startsWith('-'));
  // Words next to an unknown option may be its values: then only the option is reported.
  if (foreign.length === 0)
    return command.args.slice(wordCount).map((word) => `${quoteText(word)} is one word too many. ${help}`);
  return foreign.map((word) => {
    const [flag = ''] = word.split('=');
    const meant = { '--format': '--json', '-o': '--json', '--output': '--json', '-n': '--system-namespace' }[
      flag
    ];
    const isKnown = meant !== undefined && known.includes(meant);
    const hint = suggest(isKnown ? meant : flag, known, help);
    return `${quoteText(flag)} is not an option of ${command.name()}. ${hint}`;
  });
}
