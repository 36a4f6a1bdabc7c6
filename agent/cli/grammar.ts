import { Command, Option } from 'commander';
import { type Flags } from '../config/flags.ts';
import { findNearest } from '../config/nearest.ts';
import { describeOption, nameFlag, optionNames } from '../config/options.ts';
import { quoteText } from '../config/setting.ts';
import { defaultNamespace, manifestKinds } from '../manifest/options.ts';
import { planFormats } from './command-context.ts';
import { commandHelp, configTerms, describeConfigFlag, programHelp } from './help.ts';
import { type ConfiguredCommand, type Invocation } from './invocation.ts';

/** What a grammar is made for. */
export interface GrammarNeeds {
  readonly version: string;
  /** The first word of the command line: only this command gets its options, which is what takes time. */
  readonly word: string | undefined;
  /** Called at most once, with the command found. Help and version are commander's to print. */
  readonly onFound: (invocation: Invocation) => void;
}

/** The commands and their options as commander knows them. */
export function createGrammar({ version, word, onFound }: GrammarNeeds): Command {
  const program = new Command('vipnat')
    .description("Load-balances a Kubernetes control plane's virtual IP in the kernel.")
    .usage('COMMAND [options]')
    .version(version, '--version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .addHelpText('after', programHelp)
    .configureHelp({
      subcommandTerm: (command) => command.name(),
      optionTerm: (option) => configTerms.get(option.long ?? '') ?? option.flags,
      optionDescription: (option) => describeConfigFlag(option.long ?? '') ?? option.description,
    });
  const addConfigured = (command: Command, read: (own: Own, words: readonly string[]) => Found) => {
    if (command.name() !== word) return;
    addConfigOptions(command).action((own: Own) => {
      onFound(toInvocation(command, own, read(own, command.args)));
    });
  };

  addConfigured(
    add(program, 'run', 'keep the rules right, as an agent')
      .option('--once', 'converge once and end')
      .option('--dry-run', 'print what would be written, once, and end'),
    readRun,
  );
  addConfigured(
    add(program, 'plan', 'print what would be written')
      .option('--format <value>', `how to print it: ${planFormats.join(', ')}`)
      .option('--offline', 'read nothing; needs --proxy-mode'),
    readPlan,
  );
  addConfigured(add(program, 'check', 'tell whether the rules are as they should be'), () => bare('check'));
  addConfigured(
    add(program, 'status', 'tell how it is, on one screen')
      .option('--json', 'print JSON')
      .option('--watch', 'print again each second'),
    readStatus,
  );
  addConfigured(add(program, 'cleanup', 'remove everything of ours'), () => bare('cleanup'));
  add(program, 'vrid', "print keepalived's virtual_router_id for a virtual IP")
    .argument('<vip>')
    .usage('ADDR')
    .action((vip: string) => {
      onFound({ kind: 'vrid', vip });
    });
  addConfigured(addManifest(program), readManifest);
  return program;
}

/** What commander hands over: switches as booleans, the rest as texts. */
interface Own {
  readonly once?: boolean;
  readonly dryRun?: boolean;
  readonly format?: string;
  readonly offline?: boolean;
  readonly json?: boolean;
  readonly watch?: boolean;
  readonly image?: string;
  readonly namespace?: string;
  readonly leastPrivilege?: boolean;
  readonly config?: string;
}

interface Found {
  readonly command: ConfiguredCommand;
  /** How many words without an option belong to the command. */
  readonly wordCount?: number;
  /** What is wrong with the command's own words and switches. */
  readonly problem?: string;
}

function add(program: Command, name: keyof typeof commandHelp, summary: string): Command {
  return program
    .command(name)
    .description(summary)
    .usage('[options]')
    .helpOption('-h, --help', 'print this help')
    .addHelpText('after', commandHelp[name]);
}

function addManifest(program: Command): Command {
  return add(program, 'manifest', 'print YAML for Kubernetes that runs the agent')
    .usage(`${manifestKinds.join('|')} [options]`)
    .option('--image <value>', 'the image to run; vipnat of this version unless given')
    .option('--namespace <value>', `where to run it; ${defaultNamespace} unless given`)
    .option('--least-privilege', 'two capabilities instead of privileged');
}

function addConfigOptions(command: Command): Command {
  for (const name of optionNames) {
    const option = new Option(`${nameFlag(name)} <value>`);
    if (describeOption(name).isList)
      option.argParser((text, before: readonly string[] | undefined) => [...(before ?? []), text]);
    command.addOption(option);
  }
  return command
    .option('--config <value>', 'a YAML file with these options')
    .allowUnknownOption()
    .allowExcessArguments();
}

/** A command without switches of its own. */
function bare(name: 'check' | 'cleanup'): Found {
  return { command: { name, options: {} } };
}

function readRun({ once = false, dryRun = false }: Own): Found {
  return { command: { name: 'run', options: { once, dryRun } } };
}

function readStatus({ json = false, watch = false }: Own): Found {
  return { command: { name: 'status', options: { json, watch } } };
}

function readPlan({ format = 'commands', offline = false }: Own): Found {
  const known = planFormats.find((candidate) => candidate === format);
  if (known !== undefined) return { command: { name: 'plan', options: { format: known, offline } } };
  const example = findNearest(format, planFormats) ?? 'restore';
  return {
    command: { name: 'plan', options: { format: 'commands', offline } },
    problem: `--format ${quoteText(format)} is none of ${planFormats.join(', ')}. Example: --format ${example}`,
  };
}

function readManifest(own: Own, words: readonly string[]): Found {
  const { image = null, namespace = defaultNamespace, leastPrivilege = false } = own;
  const [word] = words;
  const kind = manifestKinds.find((candidate) => candidate === word);
  const options = { kind: kind ?? manifestKinds[0], image, namespace, leastPrivilege };
  const command = { name: 'manifest', options } as const;
  // Words beside an unknown option may be its values: then only the option is told.
  const isUnclear = words.some((other) => other.startsWith('-'));
  return kind !== undefined || isUnclear
    ? { command, wordCount: 1 }
    : { command, wordCount: 1, problem: explainKind(word) };
}

function explainKind(word: string | undefined): string {
  const example = findNearest(word ?? '', manifestKinds) ?? manifestKinds[0];
  const what =
    word === undefined
      ? `manifest needs to be told what: ${manifestKinds.join(' or ')}`
      : `${quoteText(word)} is none of ${manifestKinds.join(', ')}`;
  return `${what}. Example: vipnat manifest ${example} --vip 10.0.0.50`;
}

/** Unknown words were let pass, so that they are told together with everything else that is wrong. */
function toInvocation(command: Command, own: Own, found: Found): Invocation {
  const { command: configured, wordCount = 0, problem } = found;
  return {
    kind: 'configured',
    command: configured,
    flags: own as Flags,
    file: own.config,
    problems: [...findStrangers(command, wordCount), ...(problem === undefined ? [] : [problem])],
  };
}

function findStrangers(command: Command, wordCount: number): string[] {
  const known = command.options.map(({ long }) => long ?? '');
  const help = `See vipnat ${command.name()} --help`;
  const strangers = command.args.filter((word) => word.startsWith('-'));
  // Words beside an unknown option may be its values: then only the option is told.
  if (strangers.length === 0)
    return command.args.slice(wordCount).map((word) => `${quoteText(word)} is one word too many. ${help}`);
  return strangers.map((word) => {
    const [flag = ''] = word.split('=');
    const nearest = findNearest(flag, known);
    const hint = nearest === null ? help : `Did you mean ${nearest}?`;
    return `${quoteText(flag)} is no option of ${command.name()}. ${hint}`;
  });
}
