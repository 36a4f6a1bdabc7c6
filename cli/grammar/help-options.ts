import { type Option } from 'commander';
import {
  groupToHeading,
  nameFlag,
  type OptionName,
  optionNames,
  describeOption,
} from '../../config/options.ts';
import { keepalivedSwitches } from '../generate/keepalived/options.ts';

/** What a look at the host depends on. */
const lookNames: readonly OptionName[] = [
  'vip',
  'mode',
  'method',
  'proxyMode',
  'iptables',
  'clusterIp',
  'endpoints',
  'masquerade',
  'sysctls',
  'localClients',
  'probeInterval',
  'probeTimeout',
  'caFile',
  'kubeconfig',
  'stateDir',
  'logLevel',
];

/** Command, or kind of manifest, to the options of the configuration that make a difference to it; all where it is not here. */
const topicToNames = new Map<string, readonly OptionName[]>([
  ['plan', [...lookNames, 'nodeName']],
  ['check', lookNames],
  ['status', [...lookNames, 'nodeName', 'runDir']],
  ['doctor', [...lookNames, 'runDir']],
  ['drain', ['nodeName', 'stateDir', 'runDir', 'logLevel']],
  ['undrain', ['nodeName', 'stateDir', 'runDir', 'logLevel']],
  ['cleanup', ['vip', 'stateDir', 'logLevel']],
  ['balancer', ['kubeconfig', 'nodeName', 'runDir', 'listen', 'logLevel', 'logFormat']],
  ['services', ['kubeconfig', 'logLevel']],
  ['seats', ['kubeconfig', 'logLevel']],
  ['controller', ['vip', 'kubeconfig', 'listen', 'logLevel', 'logFormat']],
  ['keepalived', ['vip', 'endpoints', 'runDir', 'logLevel']],
  ['manifest', ['vip']],
  ['manifest daemonset', optionNames.filter((name) => name !== 'nodeName')],
  ['manifest services', ['vip', 'runDir', 'listen', 'logLevel', 'logFormat']],
  ['manifest keepalived', ['vip', 'endpoints', 'runDir']],
]);

/** Switches of `vipnat keepalived` that its manifest takes too. */
const keepalivedFlags = keepalivedSwitches.map((name) => `--${name}`);

const servicesFlags = [
  '--pool',
  '--default-class',
  '--default-device',
  '--gate',
  '--inject-gates',
  '--balancer-listen',
  '--node-probe-port',
];

/** Kind of manifest to the flags of `manifest` that are not for it. */
const kindToForeign = new Map<string, readonly string[]>([
  ['', [...keepalivedFlags, ...servicesFlags, '--keepalived-image', '--least-privilege', '--directory']],
  [
    'static-pod',
    [...keepalivedFlags, ...servicesFlags, '--keepalived-image', '--least-privilege', '--directory'],
  ],
  ['keepalived', [...servicesFlags, '--least-privilege', '--directory']],
  [
    'systemd',
    [
      ...keepalivedFlags,
      ...servicesFlags,
      ...['--keepalived-image', '--least-privilege', '--image', '--namespace'],
    ],
  ],
  ['services', [...keepalivedFlags, '--least-privilege', '--directory']],
]);

/** What a help is about: a command, and of `manifest` the kind, if one is given. */
export interface Topic {
  readonly command: string;
  readonly kind: string;
}

/** Gives the options of a command the headings under which its help shows them, and hides those that are not for it. */
export function arrangeOptions(options: readonly Option[], topic: Topic): void {
  for (const option of options) {
    const name = findName(option);
    if (name !== undefined) option.helpGroup(groupToHeading[describeOption(name).group]);
    else option.helpGroup(option.long === '--config' ? groupToHeading.host : nameOwnGroup(topic.command));
    if (!isShown(option, topic)) option.hideHelp();
  }
}

/** The heading of the options that only this command has. */
export function nameOwnGroup(command: string): string {
  return `Options of ${command}:`;
}

/** Whether a command takes options of the configuration that make no difference to it, so that the agent's can be given. */
export function takesMore({ command, kind }: Topic): boolean {
  return command !== 'manifest' && listNames({ command, kind }).length < optionNames.length;
}

function isShown(option: Option, topic: Topic): boolean {
  const name = findName(option);
  if (name !== undefined) return listNames(topic).includes(name);
  if (topic.command !== 'manifest') return true;
  const foreign = kindToForeign.get(topic.kind) ?? [
    ...keepalivedFlags,
    ...servicesFlags,
    '--keepalived-image',
    '--directory',
  ];
  return !foreign.includes(option.long ?? '');
}

function listNames({ command, kind }: Topic): readonly OptionName[] {
  const topic = kind === '' ? command : `${command} ${kind}`;
  return topicToNames.get(topic) ?? optionNames;
}

function findName({ long }: Option): OptionName | undefined {
  return optionNames.find((name) => nameFlag(name) === long);
}
