import { VipnatError } from '../../lib/text/errors.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { toAscii, toPrintableLine } from '../../lib/text/printable.ts';
import { configVariable, type Environment } from '../../config/environment.ts';
import { type ConfigReading, readConfig } from '../../config/load.ts';
import { parseCommandLine, type CallInvocation } from './command-line.ts';
import { type ErrorForm, formatError } from '../format/text/error-text.ts';
import { type ConfiguredCommand, type PlainContext } from '../command/command.ts';
import {
  type ColourChoice,
  proseWidth,
  readScreen,
  type Screen,
  type Terminal,
} from '../format/text/screen.ts';
import type { readConfigBesideAgent } from '../../agent/main.ts';
import { isUsed } from '../../lib/services/host-balancer.ts';
import { version } from '../../lib/text/version.ts';
import { table } from './table.ts';

/** What the program has of its process. */
export interface ProgramHost {
  /** The command line, without node and the script. */
  readonly args: readonly string[];
  readonly environment: Environment;
  /** What standard output is; a file or a pipe unless given. */
  readonly terminal?: () => Terminal;
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
}

/** Runs one command line to its end and answers the exit status. Never rejects: what fails is printed to stderr. */
export async function runProgram(host: ProgramHost): Promise<number> {
  let form: ErrorForm = { isDebug: host.environment['VIPNAT_LOG_LEVEL'] === 'debug', isJson: false };
  try {
    const { width, isUnicode } = readHostScreen(host, 'auto');
    const call = await parseCommandLine(host.args, version, width ?? proseWidth);
    if (call.kind === 'text') {
      host.stdout(isUnicode ? call.text : toAscii(call.text));
      return exitStatuses.done;
    }
    const { command } = call;
    if (command.heeds === undefined) {
      refuseProblems(call.problems);
      return await command.run(toContext(call, host));
    }
    form = guessForm(command, call, host.environment);
    const { config, given } = await checkConfig(command, call, host);
    form = toForm(command, call, config);
    return await command.run({ ...toContext(call, host), config, given, flags: call.flags });
  } catch (error) {
    const { text, exitCode } = formatError(error, form);
    host.stderr(text);
    return exitCode;
  }
}

function toContext(
  { options, words }: CallInvocation,
  host: ProgramHost,
): PlainContext<CallInvocation['options']> {
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

/** Before the configuration is read: what a flag or a variable says. */
function guessForm(command: ConfiguredCommand, call: CallInvocation, environment: Environment): ErrorForm {
  return toForm(command, call, {
    logLevel: call.flags['logLevel'] ?? environment['VIPNAT_LOG_LEVEL'],
    logFormat: call.flags['logFormat'] ?? environment['VIPNAT_LOG_FORMAT'],
  });
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
  const { reading, notes, reason } =
    scope === null
      ? { reading: await readConfig(sources), notes: [], reason: null }
      : await askAgentFirst(sources, scope);
  const isForServices = scope !== null && reading.config.vips.length === 0 && (await hasServices());
  refuseProblems([
    ...call.problems,
    ...reading.problems,
    ...findCommandProblems({ ...call, command }, reading, { reason, isForServices }),
  ]);
  for (const note of notes) stderr(`${toPrintableLine(note)}\n`);
  return reading;
}

/** Why there may be no virtual IP. */
interface Lack {
  /** Why the running agent was of no help; null where it was, or nobody asked it. */
  readonly reason: string | null;
  /** Whether this host has Services, so that what tells how it is may be about them alone. */
  readonly isForServices: boolean;
}

/**
 * What a command lacks in a configuration that may be right in itself, one line each. What could not be read is not called
 * missing.
 */
export function findCommandProblems(
  { command, options, unread }: Pick<CallInvocation, 'options' | 'unread'> & { command: ConfiguredCommand },
  { config, unreadable }: Pick<ConfigReading, 'config' | 'unreadable'>,
  { reason, isForServices }: Lack = { reason: null, isForServices: false },
): readonly string[] {
  const isLacking = config.vips.length === 0 && !unreadable.has('vip') && !isForServices;
  const why = reason === null ? '' : `, and ${reason}`;
  const noVip = (hint = '') =>
    isLacking ? [`no virtual IP given${why}${hint}. Example: --vip 10.0.0.50:6443`] : [];
  return command.check?.({ options, config, unreadable, unread, noVip }) ?? [];
}

/** Whether Services have anything on this host: then these commands need no virtual IP of the API. */
async function hasServices(): Promise<boolean> {
  const { inspectBalancer } = await import('../../balancer/main.ts');
  return isUsed(await inspectBalancer());
}

type DiagnosticQuestion = Parameters<typeof readConfigBesideAgent>;

/** Loaded late: what prints rules offline asks nobody. */
async function askAgentFirst(
  ...[sources, scope]: DiagnosticQuestion
): ReturnType<typeof readConfigBesideAgent> {
  const { readConfigBesideAgent } = await import('../../agent/main.ts');
  return await readConfigBesideAgent(sources, scope);
}
