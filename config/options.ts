import * as z from 'zod/mini';
import {
  defaultListen,
  iptablesChoices,
  localClientChoices,
  masquerades,
  methods,
  modes,
  proxyModes,
  sysctlChoices,
} from './config.ts';
import {
  address,
  choice,
  duration,
  endpoint,
  folder,
  list,
  listenAddress,
  nodeName,
  path,
  vip,
} from './values.ts';
import { logLevels, logFormats } from '../lib/telemetry/log-level.ts';

/** What a person is told about one option. */
export interface OptionDescription {
  /** What stands for the value in help and documents: `ADDR[:PORT]`, or the words it can be. */
  readonly argument: string;
  /** What it is for, as a phrase. */
  readonly meaning: string;
  /** A value that works. */
  readonly example: string;
  /** Whether the flag can be repeated, and its text, like the variable's, can hold several values with commas. */
  readonly isList: boolean;
  /** What it belongs to in help. */
  readonly group: OptionGroup;
}

/** Groups of options to their headings in help, in the order in which help lists them. */
export const groupToHeading = {
  what: 'What to balance:',
  how: 'How to balance:',
  health: 'Health of apiservers:',
  api: 'Kubernetes API:',
  host: 'Files and addresses of this host:',
  log: 'Log:',
} as const;

/** One of them. */
export type OptionGroup = keyof typeof groupToHeading;

const descriptions = z.registry<OptionDescription>();

/**
 * The one source of all options, by name. The flags, the VIPNAT_* variables, the keys of the file and the help come from
 * it. CONTRIBUTING.md says what else a new option needs.
 */
export const schema = z.object({
  vip: z._default(list(vip), []).register(descriptions, {
    argument: 'ADDR[:PORT]',
    meaning: 'a virtual IP to balance; repeat the flag for more; the port is 6443 unless given',
    example: '10.0.0.50:6443',
    isList: true,
    group: 'what',
  }),
  mode: z._default(choice(modes), 'auto').register(descriptions, {
    argument: modes.join('|'),
    meaning: 'the balancing mode; auto follows kube-proxy',
    example: 'direct',
    isList: false,
    group: 'how',
  }),
  method: z._default(choice(methods), 'random').register(descriptions, {
    argument: methods.join('|'),
    meaning: 'who gets new connections: random, or lc, which prefers apiservers with fewer open ones',
    example: 'lc',
    isList: false,
    group: 'how',
  }),
  proxyMode: z._default(choice(proxyModes), 'auto').register(descriptions, {
    argument: proxyModes.join('|'),
    meaning: "kube-proxy's proxy mode; auto detects it, none means no kube-proxy",
    example: 'iptables',
    isList: false,
    group: 'how',
  }),
  iptables: z._default(choice(iptablesChoices), 'auto').register(descriptions, {
    argument: iptablesChoices.join('|'),
    meaning: 'the iptables to write with; auto uses the same as the host, none a separate table in nftables',
    example: 'nft',
    isList: false,
    group: 'how',
  }),
  clusterIp: z._default(list(address), []).register(descriptions, {
    argument: 'ADDR',
    meaning: 'the ClusterIP of default/kubernetes, if vipnat cannot read it; one per family',
    example: '10.96.0.1',
    isList: true,
    group: 'what',
  }),
  endpoints: z._default(list(endpoint), []).register(descriptions, {
    argument: 'ADDR:PORT,…',
    meaning: 'the apiservers, if vipnat cannot read them',
    example: '10.0.0.11:6443,10.0.0.12:6443',
    isList: true,
    group: 'what',
  }),
  masquerade: z._default(choice(masquerades), 'own').register(descriptions, {
    argument: masquerades.join('|'),
    meaning: "which rule rewrites the client's address, vipnat's or kube-proxy's",
    example: 'kube-mark',
    isList: false,
    group: 'how',
  }),
  sysctls: z._default(choice(sysctlChoices), 'set').register(descriptions, {
    argument: sysctlChoices.join('|'),
    meaning: 'whether to switch IP forwarding on, or only to report that it is off',
    example: 'check',
    isList: false,
    group: 'how',
  }),
  localClients: z._default(choice(localClientChoices), 'keep').register(descriptions, {
    argument: localClientChoices.join('|'),
    meaning: 'whether connections of this host to a virtual IP survive its move',
    example: 'leave',
    isList: false,
    group: 'how',
  }),
  probeInterval: z._default(duration(20, 10_000), 250).register(descriptions, {
    argument: 'DURATION',
    meaning: 'the time between two probes of an apiserver, each a TCP connect',
    example: '100ms',
    isList: false,
    group: 'health',
  }),
  probeTimeout: z._default(duration(20, 10_000), 250).register(descriptions, {
    argument: 'DURATION',
    meaning: 'how long such a connect may take; after two failures in a row the apiserver is dead',
    example: '0.5s',
    isList: false,
    group: 'health',
  }),
  caFile: z._default(z.nullable(path), null).register(descriptions, {
    argument: 'PATH',
    meaning: "the cluster's CA, if it is not in a usual place; probes verify apiservers with it",
    example: '/etc/kubernetes/pki/ca.crt',
    isList: false,
    group: 'health',
  }),
  kubeconfig: z._default(z.nullable(path), null).register(descriptions, {
    argument: 'PATH',
    meaning: "credentials for the Kubernetes API, instead of the pod's service account",
    example: '/etc/kubernetes/admin.conf',
    isList: false,
    group: 'api',
  }),
  nodeName: z._default(z.nullable(nodeName), null).register(descriptions, {
    argument: 'NAME',
    meaning: "this node's name in Kubernetes, for events, if it is not the host's name",
    example: 'master-1',
    isList: false,
    group: 'api',
  }),
  stateDir: z._default(folder, '/var/lib/vipnat').register(descriptions, {
    argument: 'FOLDER',
    meaning: 'the folder of the state file, which has the last known apiservers',
    example: '/srv/vipnat',
    isList: false,
    group: 'host',
  }),
  runDir: z._default(folder, '/run/vipnat').register(descriptions, {
    argument: 'FOLDER',
    meaning: "the folder of keepalived's track file, empty after a boot",
    example: '/run/user/vipnat',
    isList: false,
    group: 'host',
  }),
  listen: z._default(listenAddress, defaultListen).register(descriptions, {
    argument: 'ADDR:PORT|off',
    meaning: 'where the agent serves /metrics, /healthz, /readyz and /status',
    example: '0.0.0.0:10268',
    isList: false,
    group: 'host',
  }),
  logLevel: z._default(choice(logLevels), 'info').register(descriptions, {
    argument: logLevels.join('|'),
    meaning: 'the lowest level of log lines',
    example: 'debug',
    isList: false,
    group: 'log',
  }),
  logFormat: z._default(choice(logFormats), 'pretty').register(descriptions, {
    argument: logFormats.join('|'),
    meaning: 'log lines for people, or one JSON object per line',
    example: 'json',
    isList: false,
    group: 'log',
  }),
});

/** Every option's checked values, defaults filled in. */
export type Values = z.output<typeof schema>;

/** The name of an option: its key in the file, and in camelCase what its flag says. */
export type OptionName = keyof Values;

/** All options, in the order in which they are listed and their problems are told. */
export const optionNames = Object.keys(schema.shape) as readonly OptionName[];

/** Whether a name is that of an option. */
export function isOptionName(name: string): name is OptionName {
  return Object.hasOwn(schema.shape, name);
}

/** What a person is told about an option. */
export function describeOption(name: OptionName): OptionDescription {
  const description = descriptions.get(schema.shape[name]);
  if (description === undefined) throw new TypeError(`option ${name} has no description`);
  return description;
}

/** The words an option can be, or none when it takes more than a few words. */
export function listChoices(name: OptionName): readonly string[] {
  const { argument } = describeOption(name);
  return /^[a-z-]+(?:\|[a-z-]+)+$/.test(argument) ? argument.split('|') : [];
}

/** `--proxy-mode` for `proxyMode`. */
export function nameFlag(name: string): string {
  return `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** `VIPNAT_PROXY_MODE` for `proxyMode`. */
export function nameVariable(name: string): string {
  return `VIPNAT_${name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}
