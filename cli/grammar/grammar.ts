import { Command, Option } from 'commander';
import { families } from '../../lib/address/address.ts';
import { defaultNamespace, manifestKinds, servicesNamespace } from '../generate/manifest/options.ts';
import { planFormats } from './command-context.ts';
import { wrapEpilogue } from '../format/text/wrap.ts';
import { commandHelp, configTerms, describeConfigFlag, moreOptions, programHelp } from './help.ts';
import { addColour, addConfigOptions, collect } from './shared-options.ts';
import { arrangeOptions, nameOwnGroup, takesMore } from './help-options.ts';
import { type Invocation } from './invocation.ts';
import { addDrain, addUndrain } from './drain-flags.ts';
import { addKeepalivedSwitches } from './keepalived-flags.ts';
import { addBalancerFlags, addServicesFlags } from './services-flags.ts';
import { readBalancer } from './read-balancer.ts';
import { addDeviceFlags } from './read-device.ts';
import { readSeats } from './read-seats.ts';
import { readServices } from './read-services.ts';
import { toInvocation } from './to-invocation.ts';
import {
  type Found,
  type Own,
  readCheck,
  readCleanup,
  readController,
  readDoctor,
  readDrain,
  readKeepalived,
  readManifest,
  readPlan,
  readRun,
  readStatus,
  readUndrain,
} from './read-command.ts';

/** What a grammar is made for. */
export interface GrammarNeeds {
  readonly version: string;
  /** The first word of the command line: only this command gets its options, which is what takes time. */
  readonly word: string | undefined;
  /** The second one: of `manifest`, the kind that its help is about. */
  readonly nextWord?: string | undefined;
  /** How many columns help has; 80 unless given. */
  readonly width?: number;
  /** Called at most once, with the command found. Help and version are commander's to print. */
  readonly onFound: (invocation: Invocation) => void;
}

/** The commands and their options as commander knows them. */
export function createGrammar(needs: GrammarNeeds): Command {
  const { word, nextWord, onFound, width = defaultWidth } = needs;
  const program = createProgram(needs, width);
  const kind = manifestKinds.find((one) => one === nextWord) ?? '';
  addCommands(program, needs, (command, read) => {
    if (command.name() !== word) return;
    addColour(command);
    addConfigOptions(command).action((own: Own) => {
      onFound(toInvocation(command, own, read(own, command.args)));
    });
    const topic = { command: word, kind };
    arrangeOptions(command.options, topic);
    if (takesMore(topic)) command.addHelpText('after', `\n${wrapEpilogue(moreOptions, width)}`);
  });
  return program;
}

/** Where nobody says how wide the terminal is. */
const defaultWidth = 80;

function createProgram({ version }: GrammarNeeds, width: number): Command {
  return new Command('vipnat')
    .description("Load-balances a Kubernetes control plane's virtual IP in the kernel.")
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
      optionTerm: (option) => configTerms.get(option.long ?? '') ?? option.flags,
      optionDescription: (option) => describeConfigFlag(option.long ?? '') ?? option.description,
    });
}

/** Gives a command the options of the configuration, and what reads its own. */
type AddConfigured = (command: Command, read: (own: Own, words: readonly string[]) => Found) => void;

function addCommands(
  program: Command,
  { version, onFound }: GrammarNeeds,
  addConfigured: AddConfigured,
): void {
  program.commandsGroup('On a master:');
  addConfigured(addRun(program), readRun);
  addConfigured(addPlan(program), readPlan);
  const check = add(program, 'check', 'compare the rules in the kernel with the wanted rules');
  addConfigured(check.option('--json', 'print JSON'), readCheck);
  addConfigured(
    add(program, 'status', 'print on one screen whether each virtual IP is balanced')
      .option('--json', 'print JSON')
      .option('--watch [value]', 'print again every so many seconds (default: 1)'),
    readStatus,
  );
  addConfigured(addDoctor(program), readDoctor);
  addConfigured(
    addDrain(add(program, 'drain', 'give this master no new connections, before maintenance')),
    readDrain,
  );
  addConfigured(addUndrain(add(program, 'undrain', 'end the drain of this master')), readUndrain);
  addConfigured(addCleanup(program), readCleanup);
  program.commandsGroup('Services:');
  addConfigured(addController(program), readController);
  addConfigured(addBalancer(program), readBalancer);
  addConfigured(addServices(program), readServices);
  addConfigured(addSeats(program), readSeats);
  addDevice(program, onFound);
  program.commandsGroup('Configuration to print:');
  addVrid(program, onFound);
  addConfigured(addKeepalived(program), readKeepalived);
  addConfigured(addManifest(program), readManifest);
  program.commandsGroup('This command line:');
  add(program, 'completion', 'print a completion script for a shell')
    .argument('<shell>')
    .usage('bash|zsh|fish')
    .action((shell: string) => {
      onFound({ kind: 'completion', shell });
    });
  add(program, 'help', 'print the help of a command').usage('[COMMAND]');
  add(program, 'version', 'print the version').action(() => {
    onFound({ kind: 'text', text: `${version}\n` });
  });
}

function add(program: Command, name: keyof typeof commandHelp, summary: string): Command {
  return program
    .command(name)
    .description(summary)
    .usage('[options]')
    .addHelpOption(new Option('-h, --help', 'print this help').helpGroup(nameOwnGroup(name)))
    .addHelpText('after', () =>
      wrapEpilogue(commandHelp[name], program.configureHelp().helpWidth ?? defaultWidth),
    );
}

function addRun(program: Command): Command {
  return add(program, 'run', 'run the agent, which keeps the rules in sync')
    .option('--once', 'write the rules once, and end')
    .option('--dry-run', 'print what run would write, and end');
}

function addPlan(program: Command): Command {
  return add(program, 'plan', 'print what run would write')
    .option(
      '--format <value>',
      `how to print the plan: ${planFormats.join(', ').replace(',', ' (default),')}`,
    )
    .option('--json', 'print JSON')
    .option('--family <value>', `print one family only: ${families.join(', ')}`)
    .option('--offline', 'read nothing of this host; needs --proxy-mode');
}

function addCleanup(program: Command): Command {
  return add(program, 'cleanup', 'remove all rules of vipnat, or the rules of one --vip')
    .option('--dry-run', 'print what cleanup would remove, and change nothing')
    .option('--json', 'print JSON');
}

function addBalancer(program: Command): Command {
  return addBalancerFlags(
    add(program, 'balancer', 'run the balancer, which sends connections to Services to their pods'),
  );
}

function addController(program: Command): Command {
  return add(program, 'controller', 'run the controller, which gives addresses to Services')
    .option('--namespace <value>', `the namespace of vipnat's Leases (default: ${servicesNamespace})`)
    .option('--default-class', 'serve Services without a class too')
    .option(
      '--default-device <value>',
      'the LoadBalancerDevice of Services without a class that have an annotation lb.zcloud.cn/vip or lb.zdns.cn/vip',
    )
    .option('--gate <value>', 'also open readiness gates of this type; repeat the flag for more', collect)
    .option('--webhook-port <value>', 'serve the webhook that gives pods a readiness gate at this port');
}

function addServices(program: Command): Command {
  return add(program, 'services', 'print each Service with its address, and why it does not work')
    .usage('[NS/NAME] [options]')
    .option('--namespace <value>', `where the balancers run (default: ${servicesNamespace})`)
    .option('--json', 'print JSON')
    .option('--watch [value]', 'print again every so many seconds (default: 2)');
}

function addSeats(program: Command): Command {
  return add(program, 'seats', "print which nodes hold Services' addresses, or move them")
    .usage('[drain|undrain NODE|rebalance] [options]')
    .option('--namespace <value>', `where the balancers run (default: ${servicesNamespace})`)
    .option('--json', 'print JSON');
}

function addDevice(program: Command, onFound: GrammarNeeds['onFound']): void {
  addDeviceFlags(
    add(program, 'device', 'ask load balancers outside of the cluster, and try drivers of them'),
    onFound,
  );
}

function addVrid(program: Command, onFound: GrammarNeeds['onFound']): void {
  add(program, 'vrid', "print keepalived's virtual_router_id for a virtual IP")
    .argument('<vip>')
    .usage('ADDR [--json]')
    .option('--json', 'print JSON')
    .action((vip: string, { json = false }: { readonly json?: boolean }) => {
      onFound({ kind: 'vrid', vip, json });
    });
}

function addDoctor(program: Command): Command {
  return add(program, 'doctor', 'find what is wrong with this host, and how to fix it')
    .option('--json', 'print JSON')
    .option('--all', 'also list the checks that found nothing')
    .option('--capture <value>', 'how long to listen to VRRP adverts; 0s: not at all (default: 3.5s)');
}

function addKeepalived(program: Command): Command {
  const command = add(program, 'keepalived', "print keepalived's configuration for this node");
  return addKeepalivedSwitches(command).option(
    '--output <value>',
    'a file to write to (default: standard output)',
  );
}

function addManifest(program: Command): Command {
  const summary = 'print a manifest of the agent or of keepalived: YAML for Kubernetes, files for systemd';
  const command = addServicesFlags(add(program, 'manifest', summary))
    .summary(summary)
    .description(`${summary}; KIND is one of ${manifestKinds.join(', ')}`)
    .usage('KIND [options]')
    .option('--image <value>', 'the image to run (default: the image of this build)')
    .option(
      '--namespace <value>',
      `where to run it; ${servicesNamespace} for services (default: ${defaultNamespace})`,
    )
    .option('--least-privilege', 'three capabilities instead of privileged')
    .option(
      '--keepalived-image <value>',
      'for keepalived and services: an image with keepalived (default: the image of this build)',
    )
    .option(
      '--directory <value>',
      'for systemd: the root folder to write the files to (default: print them)',
    );
  return addKeepalivedSwitches(command);
}
