import { VipnatError } from '../../lib/text/errors.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { toAscii, toPrintableLine } from '../../lib/text/printable.ts';
import { configVariable, type Environment } from '../../config/environment.ts';
import { type ConfigReading, readConfig } from '../../config/load.ts';
import { type CheckContext } from '../grammar/command-context.ts';
import { parseCommandLine } from '../grammar/command-line.ts';
import { findCommandProblems, isAboutHost } from '../grammar/command-rules.ts';
import { type ErrorForm, formatError } from '../format/text/error-text.ts';
import {
  type ConfiguredCommand,
  type ConfiguredInvocation,
  isAboutServices,
  type ServicesCommand,
  type UnconfiguredInvocation,
} from '../grammar/invocation.ts';
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
    const { width } = readHostScreen(host, 'auto');
    const invocation = parseCommandLine(host.args, version, width ?? proseWidth);
    if (invocation.kind !== 'configured') return await runUnconfigured(invocation, host);
    form = guessForm(invocation, host.environment);
    const reading = await checkConfig(invocation, host);
    form = toForm(invocation.command, reading.config);
    return await runCommand(invocation, reading, host);
  } catch (error) {
    const { text, exitCode } = formatError(error, form);
    host.stderr(text);
    return exitCode;
  }
}

async function runUnconfigured(invocation: UnconfiguredInvocation, host: ProgramHost): Promise<number> {
  switch (invocation.kind) {
    case 'text': {
      const { isUnicode } = readHostScreen(host, 'auto');
      host.stdout(isUnicode ? invocation.text : toAscii(invocation.text));
      return exitStatuses.done;
    }
    case 'completion': {
      const { completion } = await import('../completion/completion.ts');
      host.stdout(completion(invocation.shell));
      return exitStatuses.done;
    }
    case 'vrid': {
      const { vrid } = await import('../commands/vrid.ts');
      host.stdout(vrid(invocation.vip, invocation.json));
      return exitStatuses.done;
    }
    case 'device': {
      const { options, problems, colour } = invocation;
      if (problems.length > 0) throw new VipnatError('CONFIG_INVALID', problems.join('\n'));
      const { device } = await import('../commands/device.ts');
      return await device({ ...host, options, screen: () => readHostScreen(host, colour) });
    }
  }
}

function readHostScreen({ environment, terminal }: ProgramHost, colour: ColourChoice): Screen {
  return readScreen(environment, terminal?.() ?? { isTerminal: false, columns: null }, colour);
}

/** Before the configuration is read: what a flag or a variable says. */
function guessForm({ command, flags }: ConfiguredInvocation, environment: Environment): ErrorForm {
  return toForm(command, {
    logLevel: flags['logLevel'] ?? environment['VIPNAT_LOG_LEVEL'],
    logFormat: flags['logFormat'] ?? environment['VIPNAT_LOG_FORMAT'],
  });
}

/** Only agent and balancer have a log: what ends by itself speaks to a person, or to the person's script. */
function toForm(
  command: ConfiguredCommand,
  { logLevel, logFormat }: { readonly logLevel: unknown; readonly logFormat: unknown },
): ErrorForm {
  const hasLog =
    command.name === 'balancer' ||
    command.name === 'controller' ||
    (command.name === 'run' && !command.options.once && !command.options.dryRun);
  return { isDebug: logLevel === 'debug', isJson: hasLog && logFormat === 'json' };
}

async function checkConfig(
  invocation: ConfiguredInvocation,
  { environment, stderr }: ProgramHost,
): Promise<ConfigReading> {
  const { command, flags, problems } = invocation;
  const variable = environment[configVariable];
  const file = invocation.file ?? (variable === '' ? undefined : variable);
  const isForElsewhere = command.name === 'manifest';
  const sources = { flags, environment, file, isForElsewhere };
  const { reading, notes, reason } = isAboutHost(command)
    ? await askAgentFirst(sources, command.name === 'plan' ? 'given' : 'host')
    : { reading: await readConfig(sources), notes: [], reason: null };
  const isForServices = isAboutHost(command) && reading.config.vips.length === 0 && (await hasServices());
  const all = [
    ...problems,
    ...reading.problems,
    ...findCommandProblems(command, reading, reason, isForServices),
  ];
  if (all.length > 0) throw new VipnatError('CONFIG_INVALID', all.join('\n'));
  for (const note of notes) stderr(`${toPrintableLine(note)}\n`);
  return reading;
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

type OtherCommand = Extract<
  ConfiguredCommand,
  { readonly name: 'drain' | 'undrain' | 'keepalived' | 'manifest' }
>;

function isOther(command: ConfiguredCommand): command is OtherCommand {
  return ['drain', 'undrain', 'keepalived', 'manifest'].includes(command.name);
}

/** What a command is given, but for its own switches. */
type SharedContext = Omit<CheckContext, 'options'>;

/** Each command loads its own part only: what prints rules in 100 ms must not wait for what the agent needs. */
async function runCommand(
  { command, colour }: ConfiguredInvocation,
  { config, given }: ConfigReading,
  host: ProgramHost,
): Promise<number> {
  const screen = () => readHostScreen(host, colour);
  const context = { config, screen, stdout: host.stdout, stderr: host.stderr };
  if (isOther(command)) return await runOtherCommand(command, { ...context, given });
  if (isAboutServices(command)) return await runServicesCommand(command, { ...context, given });
  switch (command.name) {
    case 'run': {
      const { run } = await import('../commands/run.ts');
      return run({ ...context, options: command.options });
    }
    case 'plan': {
      const { plan } = await import('../commands/plan.ts');
      return plan({ ...context, options: command.options });
    }
    case 'check': {
      const { check } = await import('../commands/check.ts');
      return check({ ...context, options: command.options, given });
    }
    case 'status': {
      const { status } = await import('../commands/status.ts');
      return status({ ...context, options: command.options });
    }
    case 'doctor': {
      const { doctor } = await import('../commands/doctor.ts');
      return doctor({ ...context, options: command.options, given });
    }
    case 'cleanup': {
      const { cleanup } = await import('../commands/cleanup.ts');
      return cleanup({ ...context, options: command.options });
    }
  }
}

/** What changes how this host takes part, or prints files for other programs. */
async function runOtherCommand(command: OtherCommand, context: SharedContext): Promise<number> {
  switch (command.name) {
    case 'drain': {
      const { drain } = await import('../commands/drain.ts');
      return drain({ ...context, options: command.options });
    }
    case 'undrain': {
      const { undrain } = await import('../commands/drain.ts');
      return undrain({ ...context, options: command.options });
    }
    case 'keepalived': {
      const { keepalived } = await import('../commands/keepalived.ts');
      return keepalived({ ...context, options: command.options });
    }
    case 'manifest': {
      const { manifest } = await import('../commands/manifest.ts');
      return manifest({ ...context, options: command.options });
    }
  }
}

async function runServicesCommand(command: ServicesCommand, context: SharedContext): Promise<number> {
  switch (command.name) {
    case 'balancer': {
      const { balancer } = await import('../commands/balancer.ts');
      return balancer({ ...context, options: command.options });
    }
    case 'controller': {
      const { runController } = await import('../../controller/main.ts');
      return runController(context.config, command.options);
    }
    case 'seats': {
      const { seats } = await import('../commands/seats.ts');
      return seats({ ...context, options: command.options });
    }
    case 'services': {
      const { release, json } = command.options;
      if (release !== null) {
        const { releaseGates } = await import('../commands/release-gates.ts');
        return releaseGates({ ...context, options: { ...release, json } });
      }
      const { services } = await import('../commands/services.ts');
      return services({ ...context, options: command.options });
    }
  }
}
