import { readCertificates } from '../lib/files.ts';
import {
  parseEndpoint,
  parseAddress,
  type Endpoint,
  classifyAddress,
  type Address,
  type Scope,
  type Family,
} from '../lib/net.ts';
import * as z from 'zod/mini';
import { logLevels, logFormats } from '../lib/telemetry/log.ts';

/**
 * The settings that a running agent reports, option name to texts, checked as whatever a person gives; null when
 * one of them makes no sense here. Options that this version does not know are left out, and so is a CA that is in a file
 * of the agent's container only. Pure but for that file.
 */
export function readAgentSettings(options: Readonly<Record<string, readonly string[]>>): Settings | null {
  const find = (name: OptionName) => {
    const texts = Object.hasOwn(options, name) ? (options[name] ?? []) : [];
    const [first] = texts;
    if (first === undefined || (name === 'caFile' && readCertificates(first) === null)) return undefined;
    return describeOption(name).isList ? texts : first;
  };
  const settings = readSettings(find, () => 'the running agent');
  const raw = Object.fromEntries([...settings].map(([name, { value }]) => [name, value]));
  return schema.safeParse(raw).success ? settings : null;
}

/** The settings of a source that has texts: of a list option, several values in each. */
export function readSettings(
  find: (name: OptionName) => string | readonly string[] | undefined,
  nameSource: (name: OptionName) => string,
): Settings {
  const found = optionNames.flatMap((name): [string, Setting][] => {
    const texts = find(name);
    if (texts === undefined) return [];
    const value = describeOption(name).isList ? [texts].flat().flatMap(splitList) : texts;
    return [[name, { value, from: () => nameSource(name) }]];
  });
  return new Map(found);
}

/** The agent's settings that fit a person's own: where other virtual IPs are given, addresses of families that have none do not. */
export function fitAgentSettings(agent: Settings, own: Settings): Settings {
  const given = own.get('vip');
  if (given === undefined) return agent;
  const families = new Set(readTexts(given).map((text) => parseEndpoint(text, defaultVipPort)?.family));
  const fits = (text: string) => families.has((parseAddress(text) ?? parseEndpoint(text))?.family);
  return new Map(
    [...agent].map(([name, setting]) =>
      name === 'clusterIp' || name === 'endpoints'
        ? [name, { ...setting, value: readTexts(setting).filter(fits) }]
        : [name, setting],
    ),
  );
}

function readTexts({ value }: Setting): string[] {
  return [value].flat().filter((text) => typeof text === 'string');
}

/** One option as one source gives it, not yet checked. */
export interface Setting {
  /** A text, a list of texts, or whatever else a file has in its place. */
  readonly value: unknown;
  /** Where it is from, as in `from VIPNAT_VIP`; of a list, where that element is from. Empty for a flag. */
  readonly from: (index?: number) => string;
  /** In which line of the file it is, from 1 on; of a list, that element. Absent for a flag and a variable. */
  readonly line?: (index?: number) => number;
}

/** Option name, in camelCase, to what one source gives for it. */
export type Settings = ReadonlyMap<string, Setting>;

/** What is wrong with a configuration. */
export interface Problem {
  /** One line for a person, without `vipnat: ` in front. */
  readonly text: string;
  /** Which line of the file it is about, from 1 on; 0 for the file as a whole; null for what the file does not say. */
  readonly line: number | null;
}

/** What a source comes to. */
export interface SourceReading {
  readonly settings: Settings;
  readonly problems: readonly Problem[];
}

/** The line of the file that a setting is in; null for another source. */
export function findLine(setting: Setting | undefined, index?: number): number | null {
  return setting?.line?.(index) ?? null;
}

/** How a person has called an option: by its key in the file, else by its flag. */
export function nameIn(name: OptionName, setting: Setting | undefined): string {
  return setting?.line === undefined ? nameFlag(name) : name;
}

/** Splits the text of a list option: commas or blanks separate. An empty text stays, as the one element that is wrong. */
export function splitList(text: string): string[] {
  const parts = text.split(/[\s,]+/).filter((part) => part !== '');
  return parts.length === 0 ? [text] : parts;
}

/** ` (from VIPNAT_VIP)`, or nothing for a flag. */
export function formatSource(from: string): string {
  return from === '' ? '' : ` (from ${from})`;
}

/** How a VIP's new connections can be balanced: as `--mode` names it, or not at all. */
export type BalancingMode = Exclude<Mode, 'auto'> | 'passthrough';

/** Whether the VIP holder sends new connections on; else its own apiserver answers (mode passthrough). */
export function isBalanced({ mode }: { readonly mode: BalancingMode }): boolean {
  return mode !== 'passthrough';
}

/** The port of a VIP that is given without one: kubeadm's, and the apiserver's own default. */
const defaultVipPort = 6443;

/** Messages complete a sentence that starts with the flag and the text: `--vip 10.0.0.300` + `is not an IP address`. */
const wrongKind = { error: ({ input }: { input?: unknown }) => `must be text, not ${nameKind(input)}` };

/** Reads `ADDR[:PORT]` of an address that one host can hold. */
export const vip = read(toEndpoint(defaultVipPort));

/** Reads `ADDR:PORT` of an address that one host can hold; names are not resolved. */
const endpoint = read(toEndpoint());

/** Reads `ADDR:PORT` of an address that a server can listen at, or `off`, which is null. */
export const listenAddress = read(toListenAddress);

/** Reads `ADDR` of an address that one host or one Service can hold. */
export const address = read(toAddress);

type Text<T> = z.ZodMiniPipe<z.ZodMiniString, z.ZodMiniTransform<T, string>>;

function read<T>(transform: (text: string, context: Context) => T): Text<T> {
  return z.pipe(z.string(wrongKind), z.transform(transform));
}

/** Reads a duration between two bounds, as `250ms` or `1.5s`; answers milliseconds. */
export function duration(leastMs: number, mostMs: number): Text<number> {
  return read((text, context) => {
    const [, digits, unit] = /^(\d{1,6}(?:\.\d{1,3})?)(ms|s)$/.exec(text) ?? [];
    if (digits === undefined) return refuse(context, 'is not a duration with its unit, ms or s');
    const ms = Number(digits) * (unit === 's' ? 1000 : 1);
    return ms >= leastMs && ms <= mostMs
      ? ms
      : refuse(context, `is not between ${leastMs}ms and ${mostMs / 1000}s`);
  });
}

/** Reads a whole number between two bounds, in plain decimal. */
export function wholeNumber(least: number, most: number): Text<number> {
  return read((text, context) => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : NaN;
    if (value >= least && value <= most) return value;
    return refuse(context, `is not a whole number from ${least} to ${most}`);
  });
}

/** No command line can hold a NUL, and nobody can read a path with a line break. */
const isPlain = z.regex(/^\P{Cc}*$/u, { error: 'has a control character' });

/** Reads the path of a file; whether it is there is another question. */
const path = z.string(wrongKind).check(isPlain);

/** Reads the path of a folder from the root on: what the agent is started in differs. */
const folder = z
  .string(wrongKind)
  .check(z.regex(/^\//, { error: 'is not a path that begins with /' }), isPlain);

/** Reads the name of a Node: labels with points, as Kubernetes takes them for objects. */
export const nodeName = z.string(wrongKind).check(
  z.regex(/^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/, {
    error: 'is not a name of a node: use a-z, 0-9, - and dots between, as kubectl get nodes prints it',
  }),
);

type Context = z.core.ParsePayload;

function toEndpoint(defaultPort?: number): (text: string, context: Context) => Endpoint {
  return (text, context) => {
    const read = parseEndpoint(text, defaultPort);
    if (read === null) return refuse(context, explainEndpoint(text));
    const complaint = complaints[classifyAddress({ family: read.family, text: read.address })];
    return complaint === undefined ? read : refuse(context, complaint);
  };
}

/** Here the unspecified address, 0.0.0.0 alone of its range, means all of this host's. */
function toListenAddress(text: string, context: Context): Endpoint | null {
  if (text === 'off') return null;
  const { family, address = '' } = parseEndpoint(text) ?? {};
  const isLoopback = family !== undefined && classifyAddress({ family, text: address }) === 'loopback';
  const isMeant = isLoopback || ['0.0.0.0', '::'].includes(address);
  return isMeant ? parseEndpoint(text) : toEndpoint()(text, context);
}

function toAddress(text: string, context: Context): Address {
  const address = parseAddress(text);
  if (address === null) return refuse(context, 'is not an IP address');
  const complaint = complaints[classifyAddress(address)];
  return complaint === undefined ? address : refuse(context, complaint);
}

/** Why no endpoint could be read: the address, the port, or an IPv6 address whose port needs brackets. */
function explainEndpoint(text: string): string {
  const bare = parseAddress(text);
  if (bare?.family === 'ipv6') return 'needs brackets and a port: [ADDR]:PORT';
  const host = /^\[(?<ipv6>[^\]]*)\]|^(?<ipv4>[^:]*)/.exec(text);
  const address = parseAddress(host?.groups?.['ipv6'] ?? host?.groups?.['ipv4'] ?? '');
  return address === null ? 'is not an IP address' : 'needs a port from 1 to 65535';
}

const complaints: Readonly<Partial<Record<Scope, string>>> = {
  unspecified: 'is the unspecified address: no host has it',
  loopback: 'is a loopback address: other hosts cannot reach it',
  linkLocal: 'is a link-local address: it means another host on each link',
  multicast: 'is a multicast address, not one host',
  broadcast: 'is a broadcast address, not one host',
  ipv4Mapped: 'is an IPv4 address in IPv6 form: write it in IPv4 form',
};

function refuse(context: Context, message: string): never {
  context.issues.push({ code: 'custom', message, input: context.value });
  return z.NEVER;
}

function nameKind(input: unknown): string {
  if (input === null) return 'nothing';
  return Array.isArray(input) ? 'a list' : 'a map';
}

/** `--mode` and its choices, the default first. `auto` chooses by what kube-proxy is seen to do. */
export const modes = ['auto', 'service-chain', 'cluster-ip', 'direct'] as const;

/** `--proxy-mode` and its choices, the default first: what kube-proxy runs; `auto` finds out, `none` is no kube-proxy. */
export const proxyModes = ['auto', 'iptables', 'ipvs', 'nftables', 'none'] as const;

/** `--iptables` and its choices, the default first. `auto` takes what the host uses, `none` is a table of vipnat's own in nftables. */
export const iptablesChoices = ['auto', 'legacy', 'nft', 'none'] as const;

/** `--masquerade` and its choices, the default first. */
export const masquerades = ['own', 'kube-mark', 'none'] as const;

/** `--listen`'s default: this host only, on a port next to those of kubelet (10248, 10250) and kube-proxy (10249, 10256). */
export const defaultListen: Endpoint = { family: 'ipv4', address: '127.0.0.1', port: 10_268 };

/** One of modes. */
export type Mode = (typeof modes)[number];

/** One of proxyModes. */
export type ProxyMode = (typeof proxyModes)[number];

/** The options that the configuration has in another form. */
type Formed = 'vip' | 'clusterIp' | 'endpoints' | 'probeInterval' | 'probeTimeout';

/** The whole configuration, checked, with defaults filled in: what flags, VIPNAT_* and the file come to. */
export interface Config extends Readonly<Omit<Values, Formed>> {
  /** The virtual IPs in the order given, each once, unicast addresses only. Empty only for cleanup. */
  readonly vips: readonly Endpoint[];
  /** The ClusterIP of default/kubernetes where the user gave it, in canonical text, for families that have a VIP. */
  readonly clusterIps: Readonly<Partial<Record<Family, string>>>;
  /** apiservers the user gave, sorted, each once, never a VIP, and only of families that have a VIP. */
  readonly endpoints: readonly Endpoint[];
  /** From one TCP connect to an apiserver to the next, in milliseconds: 20 to 10,000. */
  readonly probeIntervalMs: number;
  /** How long such a connect may take, in milliseconds: 20 to 10,000. */
  readonly probeTimeoutMs: number;
}

interface OptionDescription {
  /** What stands for the value in help and documents: `ADDR[:PORT]`, or the words it can be. */
  readonly argument: string;
  /** What it is for, as a phrase. */
  readonly meaning: string;
  readonly example: string;
  /** Whether the flag can be repeated, and its text, like the variable's, can hold several values with commas. */
  readonly isList?: true;
  readonly group: OptionGroup;
  /** What it is for elsewhere than in the agent, by the command or `manifest KIND`; the default is the agent's unless given. */
  readonly elsewhere?: Readonly<Record<string, { readonly meaning: string; readonly preset?: string }>>;
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

type OptionGroup = keyof typeof groupToHeading;

/** The folder that balancers take when none is given: not that of the agent, which may run on the same host. */
export const usualRunFolder = '/run/vipnat-lb';

const unpooled = { meaning: "an address that no pool may have, such as the API's; repeat the flag for more" };
const ofSeats = { meaning: "the folder of keepalived's files, empty after a boot", preset: usualRunFolder };
const ofController = { meaning: 'where the controller serves metrics and readiness' };

const descriptions = z.registry<OptionDescription>();

/** An option whose value is one of these. */
function choose<const Choices extends readonly string[]>(
  group: OptionGroup,
  choices: Choices,
  preset: Choices[number],
  description: Omit<OptionDescription, 'argument' | 'group'>,
): z.ZodMiniDefault<z.ZodMiniEnum<{ [Choice in Choices[number]]: Choice }>> {
  const error = (issue: { input?: unknown }) =>
    typeof issue.input === 'string' ? `is none of ${choices.join(', ')}` : wrongKind.error(issue);
  const schema = z._default(z.enum(choices, { error }), preset);
  return describe(group, schema, { ...description, argument: choices.join('|') });
}

function describe<T extends z.ZodMiniType>(
  group: OptionGroup,
  schema: T,
  description: Omit<OptionDescription, 'group'>,
): T {
  descriptions.add(schema, { ...description, group });
  return schema;
}

/**
 * The one source of all options, by name. The flags, the VIPNAT_* variables, the keys of the file and the help come from
 * it. CONTRIBUTING.md says what else a new option needs.
 */
export const schema = z.object({
  vip: describe('what', z._default(z.array(vip, wrongKind), []), {
    argument: 'ADDR[:PORT]',
    meaning: 'a virtual IP to balance; repeat the flag for more; the port is 6443 unless given',
    example: '10.0.0.50:6443',
    isList: true,
    elsewhere: {
      ...{ controller: unpooled, 'manifest services': unpooled },
      cleanup: { meaning: 'remove only the rules of this virtual IP; repeat the flag for more' },
    },
  }),
  mode: choose('how', modes, 'auto', {
    meaning: 'the balancing mode; auto follows kube-proxy',
    example: 'direct',
  }),
  method: choose('how', ['random', 'rr', 'hash', 'lc'], 'random', {
    meaning: 'who gets new connections: at random, rr in turn, hash by client, lc by fewest open ones',
    example: 'rr',
  }),
  proxyMode: choose('how', proxyModes, 'auto', {
    meaning: "kube-proxy's proxy mode; auto detects it, none means no kube-proxy",
    example: 'iptables',
  }),
  iptables: choose('how', iptablesChoices, 'auto', {
    meaning: 'the iptables to write with; auto uses the same as the host, none a separate table in nftables',
    example: 'nft',
  }),
  clusterIp: describe('what', z._default(z.array(address, wrongKind), []), {
    argument: 'ADDR',
    meaning: 'the ClusterIP of default/kubernetes, if vipnat cannot read it; one per family',
    example: '10.96.0.1',
    isList: true,
  }),
  endpoints: describe('what', z._default(z.array(endpoint, wrongKind), []), {
    argument: 'ADDR:PORT,…',
    meaning: 'the apiservers, if vipnat cannot read them',
    example: '10.0.0.11:6443,10.0.0.12:6443',
    isList: true,
  }),
  masquerade: choose('how', masquerades, 'own', {
    meaning: "which rule rewrites the client's address, vipnat's or kube-proxy's",
    example: 'kube-mark',
  }),
  sysctls: choose('how', ['set', 'check'], 'set', {
    meaning: 'whether to switch IP forwarding on, or only to report that it is off',
    example: 'check',
  }),
  localClients: choose('how', ['keep', 'leave'], 'keep', {
    meaning: 'whether connections of this host to a virtual IP survive its move',
    example: 'leave',
  }),
  probeInterval: describe('health', z._default(duration(20, 10_000), 250), {
    argument: 'DURATION',
    meaning: 'the time between two probes of an apiserver, each a TCP connect',
    example: '100ms',
  }),
  probeTimeout: describe('health', z._default(duration(20, 10_000), 250), {
    argument: 'DURATION',
    meaning: 'how long such a connect may take; after two failures in a row the apiserver is dead',
    example: '0.5s',
  }),
  // A readable file; null searches the usual places.
  caFile: describe('health', z._default(z.nullable(path), null), {
    argument: 'PATH',
    meaning: "the cluster's CA, if it is not in a usual place; probes verify apiservers with it",
    example: '/etc/kubernetes/pki/ca.crt',
  }),
  // A readable file; null takes the pod's service account, if there is one.
  kubeconfig: describe('api', z._default(z.nullable(path), null), {
    argument: 'PATH',
    meaning: "credentials for the Kubernetes API, instead of the pod's service account",
    example: '/etc/kubernetes/admin.conf',
  }),
  // Null for the host's own, as the kubelet has it.
  nodeName: describe('api', z._default(z.nullable(nodeName), null), {
    argument: 'NAME',
    meaning: "this node's name in Kubernetes, if it is not the host's name",
    example: 'master-1',
  }),
  // Of both folders none may be there yet.
  stateDir: describe('host', z._default(folder, '/var/lib/vipnat'), {
    argument: 'FOLDER',
    meaning: 'the folder of what is kept over a boot: the last known apiservers, and a drain',
    example: '/srv/vipnat',
  }),
  runDir: describe('host', z._default(folder, '/run/vipnat'), {
    argument: 'FOLDER',
    meaning: "the folder of keepalived's track file, empty after a boot",
    example: '/run/user/vipnat',
    elsewhere: { balancer: ofSeats, 'manifest services': ofSeats },
  }),
  // The address may be the unspecified one, or none of this host's. Null for nowhere.
  listen: describe('host', z._default(listenAddress, defaultListen), {
    argument: 'ADDR:PORT|off',
    meaning: 'where the agent serves /metrics, /healthz, /readyz and /status',
    example: '0.0.0.0:10268',
    elsewhere: {
      balancer: { meaning: 'where the balancer serves metrics and readiness', preset: 'off' },
      controller: ofController,
      'manifest services': { ...ofController, preset: '[::]:10268' },
    },
  }),
  logLevel: choose('log', logLevels, 'info', { meaning: 'the lowest level of log lines', example: 'debug' }),
  logFormat: choose('log', logFormats, 'pretty', {
    meaning: 'log lines for people, or one JSON object per line',
    example: 'json',
  }),
});

/** Every option's checked values, defaults filled in. */
export type Values = z.output<typeof schema>;

/** The name of an option: its key in the file, and in camelCase what its flag says. */
export type OptionName = keyof Values;

/** All options, in the order in which they are listed and their problems are reported. */
export const optionNames = Object.keys(schema.shape) as readonly OptionName[];

/** Whether a name is that of an option. */
export function isOptionName(name: string): name is OptionName {
  return Object.hasOwn(schema.shape, name);
}

/** What help and documents say about an option. */
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
