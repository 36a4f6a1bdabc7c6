import {
  type Config,
  nameFlag,
  describeOption,
  listenAddress,
  defaultListen,
  wholeNumber,
  usualRunFolder,
} from '../../config/options.ts';
import { quoteText } from '../../lib/text.ts';
import { isGateType, webhookPort, injectionMethods } from '../../lib/api/endpoints.ts';
import { isDeviceName, parseDriverModule } from '../../lib/api/device.ts';
import { parseRange, type Endpoint, formatEndpoint } from '../../lib/net.ts';
import { vrrpFlags, toKeepalivedArguments, checkFolder } from '../keepalived.ts';
import * as z from 'zod/mini';
import {
  type CommandContext,
  forKinds,
  list,
  type manifestKinds,
  toggle,
  text,
  optional,
  type OptionsOf,
  refuseValue,
  formatFlags,
  checkNamespace,
  servicesNamespace,
} from '../command.ts';
import { isSea } from 'node:sea';

/** What kubelet or kube-apiserver would refuse in a manifest with these values, one line each; flags that are `unread` left out. */
export function findManifestProblems(
  options: ManifestOptions,
  config: Config,
  unread: ReadonlySet<string>,
): string[] {
  const { kind, image, namespace } = options;
  const problems = [...findKeepalivedProblems(options, unread), ...findSystemdProblems(options, config)];
  problems.push(...checkImage('--image', image, 'registry.example/vipnat:0.1.0'));
  problems.push(...checkNamespace(namespace, defaultNamespace), ...findServicesProblems(options, config));
  if ((kind === 'daemonset' || kind === 'services') && config.nodeName !== null) {
    const rule = 'would give every node of the DaemonSet the same name';
    problems.push(`--node-name ${quoteText(config.nodeName)} ${rule}: leave it out`);
  }
  for (const name of ['caFile', 'kubeconfig', 'stateDir', 'runDir'] as const) {
    const path = config[name];
    // As kube-apiserver takes it for a hostPath and, but for the root, as the place to mount it.
    if (path === null || /^(?:\/(?!\.\.?(?:\/|$))[^/:\p{C}]+)+\/?$/u.test(path)) continue;
    const rule =
      'cannot be mounted: it must begin with /, and must not contain "..", ":" or control characters';
    problems.push(refuseValue(nameFlag(name), path, rule, describeOption(name).example));
  }
  return problems;
}

/** What is no type of a readiness gate that is vipnat's to open. */
export function checkGates(gates: readonly string[]): string[] {
  const rule = 'is not the type of a readiness gate: use DOMAIN/NAME';
  return gates
    .filter((text) => !isGateType(text))
    .map((text) => refuseValue('--gate', text, rule, 'example.com/load-balancer-ready'));
}

const driverExample = 'nginx=/etc/vipnat/drivers/nginx.mjs';

/** What is no driver of one's own, or is there twice. */
export function checkDrivers(drivers: readonly string[]): string[] {
  const names = drivers.map((text) => parseDriverModule(text)?.name);
  const rule = 'is not NAME=MODULE with a name that no other driver has';
  return drivers
    .filter((_, at) => names[at] === undefined || names.indexOf(names[at]) !== at)
    .map((text) => refuseValue('--driver', text, rule, driverExample));
}

function checkDriverPaths(drivers: readonly string[]): string[] {
  const rule = "is not a path in the controller's pod: it must begin with /";
  const relative = drivers.filter((text) => /^[^=]*=[^/]/.test(text));
  return relative.map((text) => refuseValue('--driver', text, rule, driverExample));
}

/** What is no port for the webhook. */
export function checkWebhookPort(port: string | null): string[] {
  if (port === null || (/^[1-9]\d{0,4}$/.test(port) && Number(port) <= 65_535)) return [];
  return [refuseValue('--webhook-port', port, 'is not a whole number from 1 to 65535', webhookPort)];
}

/** What is no device for Services without a class, or cannot be combined with the default class. */
export function checkDefaultDevice(given: Pick<ManifestOptions, 'defaultDevice' | 'defaultClass'>): string[] {
  const { defaultDevice, defaultClass } = given;
  if (defaultDevice === null) return [];
  const rule = 'is not the name of a LoadBalancerDevice';
  const wrong = refuseValue('--default-device', defaultDevice, rule, 'haproxy-1');
  // Both would serve a Service without a class that has such an annotation.
  const both =
    '--default-device and --default-class exclude each other: both are about Services without a class. Leave one out';
  return [...(isDeviceName(defaultDevice) ? [] : [wrong]), ...(defaultClass ? [both] : [])];
}

function findServicesProblems(options: ManifestOptions, config: Config): string[] {
  const { kind, pool, gate, driver, injectGates, balancerListen, nodeProbePort } = options;
  const wrongPools = pool.filter((text) => parseRange(text) === null);
  if (kind !== 'services') return refuse(toServicesArguments(options), 'vipnat manifest services only');
  return [
    ...wrongPools.map((text) =>
      refuseValue('--pool', text, 'is not a range of addresses', '10.0.9.10-10.0.9.99'),
    ),
    ...[
      ...checkGates(gate),
      ...checkDrivers(driver),
      ...checkDriverPaths(driver),
      ...checkFolder(config, usualRunFolder),
    ],
    ...[...findListenProblems(balancerListen), ...findProbePortProblems(nodeProbePort)],
    ...[...checkDefaultDevice(options), ...findInjectionProblems(injectGates)],
  ];
}

/** One line for each flag of arguments that are for something else. */
function refuse(args: readonly string[], whose: string): string[] {
  const flags = new Set(args.map((text) => text.replace(/=[^]*/, '')));
  return [...flags].map((flag) => `${flag} is for ${whose}. Leave it out`);
}

function findInjectionProblems(injection: string | null): string[] {
  if (injection === null || (injectionMethods as readonly string[]).includes(injection)) return [];
  return [
    `--inject-gates ${quoteText(injection)} is none of ${injectionMethods.join(', ')}. Example: --inject-gates=webhook`,
  ];
}

/** What is written into a unit, and into a line of a shell in it, has to mean itself there. */
function findSystemdProblems(options: ManifestOptions, { runDir, stateDir }: Config): string[] {
  const { kind, directory } = options;
  if (kind !== 'systemd')
    return directory === null ? [] : refuse(['--directory'], 'vipnat manifest systemd only');
  const paths = { '--run-dir': runDir, '--state-dir': stateDir };
  // An empty variable of a script is not the root folder.
  return [
    ...(directory === '' ? ['--directory "" names no folder. Example: --directory /'] : []),
    ...refuse(toPodArguments(options), 'pods, and systemd has none'),
    ...Object.entries(paths)
      .filter(([, path]) => !/^\/[\w./@+-]+$/.test(path))
      .map(([flag, path]) => refuseValue(flag, path, 'cannot be written into a unit', '/run/vipnat')),
  ];
}

function findKeepalivedProblems(options: ManifestOptions, unread: ReadonlySet<string>): string[] {
  const { kind, keepalivedImage } = options;
  const whose = 'vipnat manifest keepalived and vipnat manifest services only';
  const problems =
    keepalivedImage !== null && kind !== 'keepalived' && kind !== 'services'
      ? refuse(['--keepalived-image'], whose)
      : checkImage('--keepalived-image', keepalivedImage, 'registry.example/keepalived:2.2.7');
  if (kind === 'keepalived' || Object.keys(vrrpFlags).some((name) => unread.has(name))) return problems;
  return [...problems, ...refuse(toKeepalivedArguments(options), 'vipnat manifest keepalived only')];
}

function checkImage(flag: string, image: string | null, example: string): string[] {
  if (image === null || isImage(image)) return [];
  return [refuseValue(flag, image, 'is not an image reference', example)];
}

/** Source: the grammar of github.com/distribution/reference 0.6, by which container runtimes read image names. */
function isImage(text: string): boolean {
  const host = String.raw`(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[a-fA-F0-9:]+\])(?::\d+)?`;
  const part = String.raw`[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*`;
  const tag = String.raw`\w[\w.-]{0,127}`;
  const digest = String.raw`[a-z0-9]+(?:[+._-][a-z0-9]+)*:[a-f0-9]{32,}`;
  const whole = new RegExp(`^(?<name>(?:${host}/)?${part}(?:/${part})*)(?::${tag})?(?:@${digest})?$`);
  const name = whole.exec(text.slice(0, 512))?.groups?.['name'] ?? '';
  return text.length <= 512 && name !== '' && name.length <= 255;
}

/** All that a manifest is made of. Checked: there is a VIP, and `findManifestProblems` finds nothing. */
export type ManifestRequest = Pick<CommandContext<ManifestOptions>, 'options' | 'config' | 'given'> & {
  /** The images of this build, for what the options do not name. */
  readonly ownImages: OwnImages;
};

/** The flags of pods that stand for checked options, `--image=a/b:1`; one with its default gets none. */
export function toPodArguments({ kind, image, namespace, leastPrivilege }: ManifestOptions): string[] {
  return formatFlags({ image, namespace: namespace !== chooseNamespace(kind) && namespace, leastPrivilege });
}

/** The flags of `services` alone, in the same form. */
export function toServicesArguments(options: ManifestOptions): string[] {
  const { pool, defaultClass, defaultDevice, gate, driver, injectGates, balancerListen, nodeProbePort } =
    options;
  return formatFlags({
    ...{ pool, defaultClass, defaultDevice, gate, driver },
    injectGates: injectGates === injectionMethods[0] || injectGates,
    ...{ balancerListen, nodeProbePort },
  });
}

/** Where balancers serve metrics and readiness; null for nowhere. Only for options without problems. */
export function readBalancerListen({ balancerListen }: ManifestOptions): Endpoint | null {
  return balancerListen === null ? defaultBalancerListen : z.parse(listenAddress, balancerListen);
}

/** What is wrong with it: a balancer is in the network of its node, where an agent may have its own default. */
function findListenProblems(text: string | null): string[] {
  if (text === null) return [];
  const { success, data, error } = z.safeParse(listenAddress, text);
  if (success && data?.port !== defaultListen.port) return [];
  const rule = success
    ? 'has the port that the agent of the API has by default on the same node'
    : (error.issues[0]?.message ?? 'is wrong');
  return [refuseValue('--balancer-listen', text, rule, formatEndpoint(defaultBalancerListen))];
}

const port = wholeNumber(1, 65_535);

/** The port at which balancers ask whether other nodes live, as given; 0 for `off`, the default for null and for what is wrong. */
export function readProbePort(text: string | null): number {
  if (text === 'off') return 0;
  return z.safeParse(port, text).data ?? defaultProbePort;
}

/** What is wrong with it. */
export function findProbePortProblems(text: string | null): string[] {
  if (text === null || text === 'off') return [];
  const { success, error } = z.safeParse(port, text);
  if (success) return [];
  const fault = `${error.issues[0]?.message ?? 'is wrong'}, and not off`;
  return [refuseValue('--node-probe-port', text, fault, defaultProbePort)];
}

/** The images that scripts/image makes, each with its registry and tag. */
interface OwnImages {
  readonly vipnat: string;
  readonly keepalived: string;
}

/** Set by scripts/build, from scripts/image-name. */
declare const VIPNAT_IMAGES: OwnImages | undefined;

/** The images of this build; where no build was made, the newest that were built on this machine. */
export const ownImages: OwnImages =
  typeof VIPNAT_IMAGES === 'undefined'
    ? { vipnat: 'localhost/vipnat:latest', keepalived: 'localhost/vipnat-keepalived:latest' }
    : VIPNAT_IMAGES;

/** One of manifestKinds. */
export type ManifestKind = (typeof manifestKinds)[number];

const defaultNamespace = 'kube-system';

/** This host only, on a port next to that of the agent, which may run there, too. */
export const defaultBalancerListen: Endpoint = { family: 'ipv4', address: '127.0.0.1', port: 10_269 };

/**
 * kube-proxy's, for load balancers: Kubernetes' list of ports has firewalls let it pass. Without a kube-proxy the node refuses, which is an
 * answer, too.
 */
const defaultProbePort = 10_256;

/** What help says of `--node-probe-port`. */
export const probePortMeaning = `the TCP port at which to ask whether other nodes live, or off (default: ${defaultProbePort})`;

/** The flags of the controller that its manifest takes too. */
export const controllerFlags = {
  defaultClass: toggle('serve Services without a class too'),
  /** The device of Services without a class that have annotations of another controller; null for none. */
  defaultDevice: text(
    'NAME',
    'the LoadBalancerDevice of Services without a class that have an annotation lb.zcloud.cn/vip or lb.zdns.cn/vip',
  ),
  gate: list('TYPE', 'also open readiness gates of this type; repeat the flag for more'),
  /** Modules with drivers, each as `NAME=PATH`. */
  driver: list(
    'NAME=MODULE',
    'a driver of your own, in pods from the ConfigMap vipnat-drivers; repeat the flag for more',
  ),
};

const servicesFlags = {
  pool: list('RANGE', 'addresses to give; repeat the flag for more'),
  ...controllerFlags,
  /** What gives pods the gate: one of injectionMethods, or nonsense; null for nothing. */
  injectGates: optional(
    'METHOD',
    'give pods a readiness gate where their namespace asks for it, by policy (default, Kubernetes 1.36) or webhook',
    (given): string | null => (given === true ? injectionMethods[0] : (given ?? null)),
  ),
  /** Where the balancers serve metrics; null for the default. */
  balancerListen: text(
    'ADDR:PORT',
    `where balancers serve metrics and readiness, or off (default: ${formatEndpoint(defaultBalancerListen)})`,
  ),
  /** Where the balancers ask whether other nodes live; null for the default. */
  nodeProbePort: text('PORT', probePortMeaning),
};

const pods = ['', 'daemonset', 'static-pod', 'keepalived', 'services'];

/** The flags of `vipnat manifest`, read as they were given: `findManifestProblems` says what is wrong with them. */
export const manifestFlags = {
  ...forKinds(['services'], servicesFlags, 'for services: '),
  ...forKinds(pods, {
    /** vipnat's image, as a reference; null for that of this build. */
    image: text('IMAGE', 'the image to run (default: the image of this build)'),
    namespace: text(
      'NAME',
      `where to run it; ${servicesNamespace} for services (default: ${defaultNamespace})`,
      (given, { words: [kind] }) => given ?? chooseNamespace(kind),
    ),
  }),
  ...forKinds(['daemonset'], {
    /** Whether the DaemonSet runs without privileged; static pods always do. */
    leastPrivilege: toggle('three capabilities instead of privileged'),
  }),
  ...forKinds(['keepalived', 'services'], {
    /** An image with a program keepalived; null for that of this build. */
    keepalivedImage: text(
      'IMAGE',
      'for keepalived and services: an image with keepalived (default: the image of this build)',
    ),
  }),
  ...forKinds(['systemd'], {
    /** The folder below which the files are written; null to print them, or what else is asked for. */
    directory: text('FOLDER', 'for systemd: the root folder to write the files to (default: print them)'),
  }),
  ...forKinds(['keepalived'], vrrpFlags),
};

/** What `vipnat manifest` is asked for. */
export type ManifestOptions = OptionsOf<typeof manifestFlags> & { readonly kind: ManifestKind };

function chooseNamespace(kind: string | undefined): string {
  return kind === 'services' ? servicesNamespace : defaultNamespace;
}

/**
 * The command line that starts vipnat on a host: this executable where it is a single one, else Node.js and the program where
 * docs/install.md has them.
 */
export const ownProgram: readonly string[] = isSea()
  ? [process.execPath]
  : ['/usr/bin/node', '/opt/vipnat/vipnat.js'];
