import { findListenProblems } from './balancer-listen.ts';
import { findProbePortProblems } from './probe-port.ts';
import { type Config } from '../../../config/config.ts';
import { usualRunFolder } from '../../../lib/keepalived/seat-files.ts';
import { describeOption, nameFlag } from '../../../config/options.ts';
import { isSafePath } from '../../../lib/keepalived/words.ts';
import { isDeviceName } from '../../../lib/services/devices.ts';
import { isGateType } from '../../../lib/services/gate-types.ts';
import { injectionMethods, webhookPort } from '../../../lib/services/injection.ts';
import { parseRange } from '../../../lib/services/ranges.ts';
import { quoteText } from '../../../config/setting.ts';
import { toKeepalivedArguments, vrrpFlags } from '../keepalived/options.ts';
import { defaultNamespace, type ManifestOptions } from './options.ts';
import { toPodArguments, toServicesArguments } from './request.ts';

/** What kubelet or kube-apiserver would refuse in a manifest with these values, one line each; flags that are `unread` left out. */
export function findManifestProblems(
  options: ManifestOptions,
  config: Config,
  unread: ReadonlySet<string>,
): string[] {
  const { kind, image, namespace } = options;
  const problems = [...findKeepalivedProblems(options, unread), ...findSystemdProblems(options, config)];
  if (image !== null && !isImage(image)) {
    problems.push(
      `--image ${quoteText(image)} is not an image reference. Example: --image registry.example/vipnat:0.1.0`,
    );
  }
  problems.push(...checkNamespace(namespace, defaultNamespace), ...findServicesProblems(options, config));
  if ((kind === 'daemonset' || kind === 'services') && config.nodeName !== null) {
    const rule = 'would give every node of the DaemonSet the same name';
    problems.push(`--node-name ${quoteText(config.nodeName)} ${rule}: leave it out`);
  }
  for (const name of ['caFile', 'kubeconfig', 'stateDir', 'runDir'] as const) {
    const path = config[name];
    if (path === null || isHostPath(path)) continue;
    const rule =
      'cannot be mounted: it must begin with /, and must not contain "..", ":" or control characters';
    const flag = nameFlag(name);
    problems.push(`${flag} ${quoteText(path)} ${rule}. Example: ${flag} ${describeOption(name).example}`);
  }
  return problems;
}

/** What is no name of a namespace (RFC 1123, a label). */
export function checkNamespace(namespace: string, example: string): string[] {
  if (/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(namespace)) return [];
  const rule = 'is not a namespace: use 1 to 63 of a-z, 0-9 and -, without - at either end';
  return [`--namespace ${quoteText(namespace)} ${rule}. Example: --namespace ${example}`];
}

/** What is no type of a readiness gate that is vipnat's to open. */
export function checkGates(gates: readonly string[]): string[] {
  const rule = 'is not the type of a readiness gate: use DOMAIN/NAME';
  return gates
    .filter((text) => !isGateType(text))
    .map((text) => `--gate ${quoteText(text)} ${rule}. Example: --gate example.com/load-balancer-ready`);
}

/** What is no port for the webhook. */
export function checkWebhookPort(port: string | null): string[] {
  if (port === null || (/^[1-9]\d{0,4}$/.test(port) && Number(port) <= 65_535)) return [];
  const rule = 'is not a whole number from 1 to 65535';
  return [`--webhook-port ${quoteText(port)} ${rule}. Example: --webhook-port ${webhookPort}`];
}

/** What is no device for Services without a class, or beside which all of them have a class. */
export function checkDefaultDevice({
  defaultDevice,
  defaultClass,
}: Pick<ManifestOptions, 'defaultDevice' | 'defaultClass'>): string[] {
  return [
    ...(defaultDevice === null || isDeviceName(defaultDevice)
      ? []
      : [
          `--default-device ${quoteText(defaultDevice)} is not the name of a LoadBalancerDevice. Example: --default-device haproxy-1`,
        ]),
    // Both would serve a Service without a class that has such an annotation.
    ...(defaultDevice !== null && defaultClass
      ? [
          '--default-device and --default-class exclude each other: both are about Services without a class. Leave one out',
        ]
      : []),
  ];
}

function findServicesProblems(options: ManifestOptions, config: Config): string[] {
  const { kind, pool, gate, injectGates, balancerListen, nodeProbePort } = options;
  if (kind !== 'services') return refuse(toServicesArguments(options), 'vipnat manifest services only');
  return [
    ...[...findPoolProblems(pool), ...checkGates(gate), ...findFolderProblems(config)],
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

function findPoolProblems(pools: readonly string[]): string[] {
  return pools
    .filter((text) => parseRange(text) === null)
    .map(
      (text) => `--pool ${quoteText(text)} is not a range of addresses. Example: --pool 10.0.9.10-10.0.9.99`,
    );
}

/** The balancer writes it into keepalived.conf. */
function findFolderProblems({ runDir }: Config): string[] {
  if (isSafePath(runDir)) return [];
  return [
    `--run-dir ${quoteText(runDir)} cannot be written into keepalived.conf. Example: --run-dir ${usualRunFolder}`,
  ];
}

/** What is written into a unit, and into a line of a shell in it, has to mean itself there. */
function findSystemdProblems(options: ManifestOptions, { runDir, stateDir }: Config): string[] {
  const { kind, directory } = options;
  if (kind !== 'systemd') {
    return directory === null ? [] : refuse(['--directory'], 'vipnat manifest systemd only');
  }
  const paths = { '--run-dir': runDir, '--state-dir': stateDir };
  // An empty variable of a script is not the root folder.
  return [
    ...(directory === '' ? ['--directory "" names no folder. Example: --directory /'] : []),
    ...refuse(toPodArguments(options), 'pods, and systemd has none'),
    ...Object.entries(paths)
      .filter(([, path]) => !/^\/[\w./@+-]+$/.test(path))
      .map(
        ([flag, path]) =>
          `${flag} ${quoteText(path)} cannot be written into a unit. Example: ${flag} /run/vipnat`,
      ),
  ];
}

function findKeepalivedProblems(options: ManifestOptions, unread: ReadonlySet<string>): string[] {
  const { kind, keepalivedImage } = options;
  const problems: string[] = [];
  if (keepalivedImage !== null && kind !== 'keepalived' && kind !== 'services') {
    problems.push(
      ...refuse(['--keepalived-image'], 'vipnat manifest keepalived and vipnat manifest services only'),
    );
  } else if (keepalivedImage !== null && !isImage(keepalivedImage)) {
    const example = 'Example: --keepalived-image registry.example/keepalived:2.2.7';
    problems.push(`--keepalived-image ${quoteText(keepalivedImage)} is not an image reference. ${example}`);
  }
  if (kind === 'keepalived' || Object.keys(vrrpFlags).some((name) => unread.has(name))) return problems;
  return [...problems, ...refuse(toKeepalivedArguments(options), 'vipnat manifest keepalived only')];
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

/** As kube-apiserver takes it for a hostPath and, but for the root, as the place to mount it. */
function isHostPath(path: string): boolean {
  return /^(?:\/(?!\.\.?(?:\/|$))[^/:\p{C}]+)+\/?$/u.test(path);
}
