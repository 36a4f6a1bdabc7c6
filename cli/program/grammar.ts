import { Command, Option } from 'commander';
import { type Command as AnyCommand, type LoadedCommand } from '../command/command.ts';
import { type CommandOption, describeCommand, listOptions, nameOwnGroup } from '../command/options.ts';
import { optionNames } from '../../config/options.ts';
import { wrapEpilogue } from '../format/text/wrap.ts';
import { groups, table } from './table.ts';

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

/** What help says of options that a command takes beside those that it lists. */
const moreOptions =
  'Other options of vipnat run have no effect here. You can paste the options of the agent.';

/** What a grammar is made for. */
export interface GrammarNeeds {
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
export interface CalledCommand extends LoadedCommand {
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

function addRows(program: Command): void {
  const inOrder = groups.flatMap((group) => table.filter((row) => row.group === group));
  for (const { name, group, summary } of inOrder) program.command(name).helpGroup(group).summary(summary);
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
  if (command.heeds !== undefined || command.words !== undefined) {
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

function addHelp(added: Command, { row, command }: LoadedCommand, width: number): void {
  const { usage = '[options]', help } = command;
  const text = wrapEpilogue(help, width);
  added
    .description(describeCommand({ row, command }))
    .usage(usage)
    .addHelpOption(new Option('-h, --help', 'print this help').helpGroup(nameOwnGroup(row.name)))
    .addHelpText('after', takesMore(command) ? `${text}\n\n${wrapEpilogue(moreOptions, width)}` : text);
}

/** Whether it takes options of the configuration that make no difference to it, so that the agent's can be given. */
function takesMore({ heeds, ...command }: AnyCommand): boolean {
  return heeds !== undefined && !('kinds' in command) && heeds.length < optionNames.length;
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
