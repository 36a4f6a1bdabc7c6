/** The lab as a command, see scripts/lab. */
import {
  type GivenOptions,
  defaultKubernetes,
  parseOptions,
  proxyModes,
  defaultOptions,
  type LabOptions,
} from '../settings/options.ts';
import { Command, Option } from 'commander';
import { buildComponents, buildHelm, buildNodeComponents, buildSpecComponents } from '../build/build.ts';
import { buildKernel } from '../build/kernel.ts';
import { nodes } from '../nodes/hosts.ts';
import { describeLab } from './describe.ts';
import { LabError } from '../settings/error.ts';
import { requireHost } from '../settings/requirements.ts';
import { claimLab } from '../control-plane/claim.ts';
import { requireDown, raiseLab } from '../control-plane/raise.ts';
import { removeLabOnSignal } from '../control-plane/interrupt.ts';
import { raiseNodes } from '../nodes/raise.ts';
import { Lab } from '../control-plane/lab.ts';
import { NodeLab } from '../nodes/node-lab.ts';
import { listLabs } from '../control-plane/state.ts';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';

type Given = GivenOptions;

const say = (line: string) => {
  process.stderr.write(`${line}\n`);
};

const program = new Command('scripts/lab')
  .description(
    'A control plane of real components on this machine: three masters, a worker, pods and a client.',
  )
  // So that `exec` leaves the options of the command that it runs alone.
  .enablePositionalOptions()
  .configureOutput({
    outputError: (text, write) => {
      write(text.replace(/^error: /, 'lab: '));
    },
  });

program
  .command('build')
  .description('builds etcd, kube-apiserver and kube-proxy, once per release')
  .option('--kubernetes <release>', 'the Kubernetes release', defaultKubernetes)
  .option('--helm', 'builds Helm, too, which the tests of the chart need')
  .option('--nodes', 'builds what real nodes need, too: kubelet, kubectl and the controllers')
  .option('--kernel', 'builds a kernel with IPVS and nftables for virtual machines, too')
  .option('--specs', "builds Kubernetes' own specs of Services, too, and what they need: CoreDNS and agnhost")
  .action(async ({ helm, kernel, specs, ...given }: Given & { helm?: true; kernel?: true; specs?: true }) => {
    const { kubernetes, hasNodes } = parseOptions(given);
    await buildComponents(kubernetes, say);
    if (helm === true) await buildHelm(say);
    if (hasNodes === true) await buildNodeComponents(kubernetes, say);
    if (kernel === true) await buildKernel(say);
    if (specs === true) await buildSpecComponents(kubernetes, say);
  });

named('up', 'brings a lab up; it stays until `down`')
  .addOption(
    new Option('--proxy-mode <mode>', "kube-proxy's mode, or no kube-proxy at all").choices(proxyModes),
  )
  .addOption(
    new Option('--iptables <backend>', 'the backend that kube-proxy writes to').choices(['nft', 'legacy']),
  )
  .addOption(new Option('--ip-family <family>', "the cluster's family").choices(['ipv4', 'ipv6']))
  .option('--kubernetes <release>', 'the Kubernetes release', defaultKubernetes)
  .option(
    '--nodes',
    `real nodes, ${nodes.map(({ name }) => name).join(', ')}: a kubelet on each, static pods on masters`,
  )
  .action((given: Given) => bringUp(parseOptions(given)));

named('status', 'says what runs where').action(async (given: Given) => {
  process.stdout.write(await describeLab(find(given)));
});

named(
  'exec <node> <command...>',
  'runs a command on m1, m2, m3, worker, worker2 or client, in the folder where you are',
)
  .passThroughOptions()
  .action(async (node: string, command: string[], given: Given) => {
    await runOn(find(given), node, command);
  });

named('kubectl [words...]', 'runs kubectl at the client, through the VIP, on real nodes')
  .passThroughOptions()
  .action(async (words: string[], given: Given) => {
    await hand(findNodeLab(given).spawnKubectl(words));
  });

named('off <node>', 'takes the power from a real node: its cable and all its processes at once').action(
  async (node: string, given: Given) => {
    await claim(given, 'off');
    await findNodeLab(given).powerOff(node);
  },
);

named('on <node>', 'boots a real node').action(async (node: string, given: Given) => {
  await claim(given, 'on');
  await findNodeLab(given).boot(node);
});

named('down', 'ends a lab and removes everything of it').action(async (given: Given) => {
  await claim(given, 'down');
  await find(given).down();
});

try {
  await program.parseAsync();
} catch (error) {
  if (!(error instanceof LabError)) throw error;
  say(`lab: ${error.message}`);
  process.exitCode = 1;
}

function named(usage: string, description: string): Command {
  return program
    .command(usage)
    .description(description)
    .option('--name <name>', 'which lab', defaultOptions.name);
}

async function bringUp(options: LabOptions): Promise<void> {
  requireHost(options);
  await claimLab(options.name, 'up');
  requireDown(options);
  // Its sandbox is told to stay only at the end.
  removeLabOnSignal(options.name);
  await buildComponents(options.kubernetes, say);
  if (options.hasNodes === true) await buildNodeComponents(options.kubernetes, say);
  const started = performance.now();
  const lab = await (options.hasNodes === true ? raiseNodes(options, { say }) : raiseLab(options, { say }));
  lab.keep();
  say(`up in ${((performance.now() - started) / 1000).toFixed(0)} s`);
  process.stdout.write(await describeLab(lab));
}

/** Until this process ends. What is found of a lab before is another command's, which may change it. */
async function claim(given: Given, command: string): Promise<void> {
  await claimLab(parseOptions(given).name, command);
}

function find(given: Given): Lab {
  const { name } = parseOptions(given);
  const lab = NodeLab.find(name) ?? Lab.find(name);
  if (lab !== null) return lab;
  const others = listLabs().filter((other) => Lab.find(other) !== null);
  const list = others.length === 0 ? 'There is none' : `There are: ${others.join(', ')}`;
  throw new LabError(`no lab called ${name} is up. ${list}. scripts/lab up makes one`);
}

function findNodeLab(given: Given): NodeLab {
  const lab = find(given);
  if (lab instanceof NodeLab) return lab;
  throw new LabError(
    `the lab ${lab.options.name} has no real nodes: scripts/lab up --nodes makes one that has`,
  );
}

async function runOn(lab: Lab, node: string, command: readonly string[]): Promise<void> {
  // A shell, because a machine starts everything in its root folder.
  const child = lab
    .machine(node)
    .spawn(['sh', '-c', 'cd "$0" && exec "$@"', process.cwd(), ...command], 'inherit');
  await hand(child);
}

/** Leaves the terminal to a command, and ends as it does. */
async function hand(child: ChildProcess): Promise<void> {
  // Ctrl-C is for the command: this process ends after it.
  process.on('SIGINT', () => undefined);
  const [status] = (await once(child, 'close')) as [number | null];
  process.exitCode = status ?? 1;
}
