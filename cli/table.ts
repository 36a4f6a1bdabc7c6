import { Command, Option } from 'commander';
import {
  type LoadedCommand,
  listOptions,
  describeCommand,
  nameOwnGroup,
  type Command as AnyCommand,
  type CommandOption,
  type CommandRow,
} from './command.ts';
import { wrapEpilogue } from './output.ts';
import { optionNames } from '../config/options.ts';

/** What help says of the program as a whole. */
export const programSummary = "Load-balances a Kubernetes control plane's virtual IP in the kernel.";

/** What `vipnat --help` says below the commands. */
export const programHelp = `
Examples:
  vipnat plan --vip 10.0.0.50        what vipnat would write on this host, and why
  vipnat run --vip 10.0.0.50         the agent

Exit status: 0 done, or nothing wrong. 1 the command failed.
2 check, status, services, seats, device or doctor found something. 3 doctor found failures.
78 the command line or configuration is wrong.
See vipnat help COMMAND for the options of a command. Each option can also be
a variable (VIPNAT_PROXY_MODE) or a key in the --config file (proxyMode).`;

/** What help says of options that a command takes in addition to those that it lists. */
const moreOptions =
  'Other options of vipnat run have no effect here. You can paste the options of the agent.';

/** What a grammar is made for. */
interface GrammarNeeds {
  readonly version: string;
  /** How many columns help has. */
  readonly width: number;
  /** Called at most once, with what was found. Help and version are commander's to print. */
  readonly onFound: (command: Command) => void;
}

/** The program as commander knows it, with the one command that is called; with a line for each command where none is. */
export function createGrammar(needs: GrammarNeeds, called: CalledCommand | null): Command {
  const program = createProgram(needs);
  if (called === null) addRows(program);
  else addCommand(program, needs, called);
  return program;
}

/** A command, and whether its help is asked for: nothing is arranged for nobody. */
interface CalledCommand extends LoadedCommand {
  /** Of its kinds, what its help is about; empty for none. */
  readonly kind: string;
  readonly isHelp: boolean;
}

function createProgram({ version, width }: GrammarNeeds): Command {
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

/** The program's help: headings in their order, and the commands below each. */
const headingToNames = {
  'On a master:': ['run', 'plan', 'check', 'status', 'doctor', 'drain', 'undrain', 'cleanup'],
  'Services:': ['controller', 'balancer', 'services', 'seats', 'device'],
  'Configuration to print:': ['vrid', 'keepalived', 'manifest'],
  'This command line:': ['completion', 'help', 'version'],
};

function addRows(program: Command): void {
  for (const [heading, names] of Object.entries(headingToNames)) {
    for (const { name, summary } of names.flatMap((one) => table.filter((row) => row.name === one))) {
      program.command(name).helpGroup(heading).summary(summary);
    }
  }
}

function addCommand(program: Command, { width, onFound }: GrammarNeeds, called: CalledCommand): void {
  const { row, command } = called;
  const added = program.command(row.name);
  if (called.isHelp) addHelp(added, called, width);
  const terms = new Map<string, string>();
  for (const option of listOptions(called, called.kind)) {
    const made = toOption(option);
    if (called.isHelp) terms.set(option.flag, explainOption(made, option));
    added.addOption(made);
  }
  if (command.configOptions !== undefined || command.words !== undefined) {
    added.allowUnknownOption().allowExcessArguments();
  } else if (command.argument !== undefined) {
    added.argument(`<${command.argument.name}>`);
  }
  added
    .configureHelp({
      ...program.configureHelp(),
      optionTerm: ({ long, flags }) => terms.get(long ?? '') ?? flags,
    })
    .action(() => {
      onFound(added);
    });
}

function addHelp(added: Command, { row, command, kind }: CalledCommand, width: number): void {
  const { usage = '[options]', help } = command;
  const text = wrapEpilogue(help, width);
  added
    .description(describeCommand({ row, command }))
    .usage(usage)
    .addHelpOption(new Option('-h, --help', 'print this help').helpGroup(nameOwnGroup(row.name)))
    .addHelpText('after', takesMore(command, kind) ? `${text}\n\n${wrapEpilogue(moreOptions, width)}` : text);
}

/** Whether it takes options of the configuration that make no difference to it, so that the agent's can be given. */
function takesMore(command: AnyCommand, kind: string): boolean {
  if (command.configOptions === undefined || command.kinds !== undefined || kind !== '') return false;
  return command.configOptions.length < optionNames.length;
}

function toOption({ flag, takes, isList }: CommandOption): Option {
  const option = new Option(`${flag}${{ nothing: '', optional: ' [value]', value: ' <value>' }[takes]}`);
  return isList ? option.argParser(collect) : option;
}

function collect(text: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), text];
}

/** Gives an option its place in help; answers how help writes it. */
function explainOption(option: Option, { explain }: CommandOption): string {
  const { term, meaning, heading, isShown } = explain();
  option.description = meaning;
  option.helpGroup(heading).hideHelp(!isShown);
  return term;
}

/** All commands. What one needs is loaded when it is called: what prints rules in 100 ms must not wait for what the agent needs. */
export const table = [
  {
    name: 'run',
    summary: 'run the agent, which keeps the rules in sync',
    load: async () => (await import('./commands/run.ts')).run,
  },
  {
    name: 'plan',
    summary: 'print what run would write',
    load: async () => (await import('./commands/plan.ts')).plan,
  },
  {
    name: 'check',
    summary: 'compare the rules in the kernel with the wanted rules',
    load: async () => (await import('./commands/check.ts')).check,
  },
  {
    name: 'status',
    summary: 'print on one screen whether each virtual IP is balanced',
    load: async () => (await import('./commands/status.ts')).status,
  },
  {
    name: 'doctor',
    summary: 'find what is wrong with this host, and how to fix it',
    load: async () => (await import('./commands/doctor.ts')).doctor,
  },
  {
    name: 'drain',
    summary: 'give this master no new connections, before maintenance',
    load: async () => (await import('./commands/drain.ts')).drain,
  },
  {
    name: 'undrain',
    summary: 'end the drain of this master',
    load: async () => (await import('./commands/drain.ts')).undrain,
  },
  {
    name: 'cleanup',
    summary: 'remove all rules of vipnat, or the rules of one --vip',
    load: async () => (await import('./commands/cleanup.ts')).cleanup,
  },
  {
    name: 'vrid',
    summary: "print keepalived's virtual_router_id for a virtual IP",
    load: async () => (await import('./commands/keepalived.ts')).vrid,
  },
  {
    name: 'manifest',
    summary: 'print a manifest of the agent or of keepalived: YAML for Kubernetes, files for systemd',
    load: async () => (await import('./commands/manifest.ts')).manifest,
  },
  {
    name: 'keepalived',
    summary: "print keepalived's configuration for this node",
    load: async () => (await import('./commands/keepalived.ts')).keepalived,
  },
  {
    name: 'controller',
    summary: 'run the controller, which gives addresses to Services',
    load: async () => (await import('./commands/controller.ts')).controller,
  },
  {
    name: 'balancer',
    summary: 'run the balancer, which sends connections to Services to their pods',
    load: async () => (await import('./commands/balancer.ts')).balancer,
  },
  {
    name: 'services',
    summary: 'print each Service with its address, and why it does not work',
    load: async () => (await import('./commands/services.ts')).services,
  },
  {
    name: 'seats',
    summary: "print which nodes hold Services' addresses, or move them",
    load: async () => (await import('./commands/seats.ts')).seats,
  },
  {
    name: 'device',
    summary: 'ask load balancers outside of the cluster, and try drivers of them',
    load: async () => (await import('./commands/device.ts')).device,
  },
  {
    name: 'completion',
    summary: 'print a completion script for a shell',
    load: async () => (await import('./commands/completion.ts')).completion,
  },
  {
    name: 'help',
    summary: 'print the help of a command',
    load: async () => (await import('./commands/help.ts')).help,
  },
  {
    name: 'version',
    summary: 'print the version',
    load: async () => (await import('./commands/version.ts')).printVersion,
  },
] as const satisfies readonly CommandRow[];

/** The names of all commands. */
export const commandNames = table.map(({ name }) => name);
