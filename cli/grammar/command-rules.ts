import { families, type Family } from '../../lib/address/address.ts';
import { chooseOfflineWay } from '../../agent/decide/offline.ts';
import { type WayEntry, wayToEntry } from '../../agent/decide/ways.ts';
import { type Config } from '../../config/config.ts';
import { type ConfigReading } from '../../config/load.ts';
import { type OptionName } from '../../config/options.ts';
import { servicesNamespace } from '../generate/manifest/options.ts';
import {
  checkDefaultDevice,
  checkGates,
  checkNamespace,
  checkWebhookPort,
  findManifestProblems,
} from '../generate/manifest/problems.ts';
import { type ConfiguredCommand, isAboutServices } from './invocation.ts';

/**
 * What a command lacks in a configuration that may be right in itself, one line each. What could not be read is not called
 * missing. `reason` says why the running agent was of no help, for a command that asked it. With `isForServices` this host has
 * Services, and what tells how it is may be about them alone.
 */
export function findCommandProblems(
  command: ConfiguredCommand,
  { config, unreadable }: Pick<ConfigReading, 'config' | 'unreadable'>,
  reason?: string | null,
  isForServices = false,
): string[] {
  const lacksVip = needsVip(command, isForServices) && config.vips.length === 0 && !unreadable.has('vip');
  return [
    ...findOwnProblems(command),
    ...(lacksVip ? [explainNoVip(command, reason)] : []),
    ...(command.name === 'plan' && command.options.offline ? findOfflineProblems(config, unreadable) : []),
    ...(command.name === 'manifest' ? findManifestProblems(command.options, config) : []),
  ];
}

/** What is wrong with a command's own switches. */
function findOwnProblems(command: ConfiguredCommand): string[] {
  if (isAboutServices(command))
    return [
      ...checkNamespace(command.options.namespace, servicesNamespace),
      ...(command.name === 'controller'
        ? [
            ...checkGates(command.options.gates),
            ...checkWebhookPort(command.options.webhookPort),
            ...checkDefaultDevice(command.options),
          ]
        : []),
    ];
  return command.name === 'run' && command.options.once && command.options.dryRun
    ? ['--once and --dry-run exclude each other: one writes, the other only prints. Leave one out']
    : [];
}

/** What tells how this host is, of whatever vipnat has there. */
export function isAboutHost(command: ConfiguredCommand): boolean {
  if (command.name === 'plan') return !command.options.offline;
  return ['check', 'status', 'doctor'].includes(command.name);
}

/** What has to do with Services alone needs none; cleanup is about all rules. */
function needsVip(command: ConfiguredCommand, isForServices: boolean): boolean {
  if (isAboutHost(command) && isForServices) return false;
  if (command.name === 'manifest') return command.options.kind !== 'services';
  return !['cleanup', 'drain', 'undrain'].includes(command.name) && !isAboutServices(command);
}

function explainNoVip({ name }: ConfiguredCommand, reason: string | null | undefined): string {
  const why = typeof reason === 'string' ? `, and ${reason}` : '';
  // Its user may not have one yet.
  const choice =
    name === 'doctor'
      ? ". Name the address at which clients reach the API. For a new cluster, choose a free address of the masters' network"
      : '';
  return `no virtual IP given${why}${choice}. Example: --vip 10.0.0.50:6443`;
}

/** Nothing may be read, so whatever the way to balance needs must be given. */
function findOfflineProblems(config: Config, unreadable: ReadonlySet<OptionName>): string[] {
  if (unreadable.has('proxyMode') || unreadable.has('mode')) return [];
  if (config.proxyMode === 'auto') {
    return ["--offline needs kube-proxy's proxy mode, because it reads nothing: add --proxy-mode iptables"];
  }
  const { name, needs } = explainNeed(config);
  const isLacking = (family: Family) =>
    config.vips.some((vip) => vip.family === family) && needs !== null && !hasGiven(config, needs, family);
  if (needs === null || unreadable.has(needs)) return [];
  const { what, examples } = needsInWords[needs];
  return families
    .filter(isLacking)
    .map((family) => `${name} needs ${what} with --offline: add ${examples[family]}`);
}

type Need = NonNullable<WayEntry['needs']>;

/** Which choice of the user's asks for what: a forced way for its own, else kube-proxy's mode for the way it leads to. */
function explainNeed({ mode, proxyMode }: Config): { name: string; needs: Need | null } {
  const { needs } = wayToEntry[chooseOfflineWay({ mode, proxyMode })];
  if (mode !== 'auto') return { name: mode, needs };
  return { name: proxyMode === 'none' ? 'balancing without kube-proxy' : proxyMode, needs };
}

function hasGiven(config: Config, need: Need, family: Family): boolean {
  if (need === 'clusterIp') return config.clusterIps[family] !== undefined;
  return config.endpoints.some((endpoint) => endpoint.family === family);
}

const needsInWords: Readonly<Record<Need, { what: string; examples: Readonly<Record<Family, string>> }>> = {
  clusterIp: {
    what: 'the ClusterIP',
    examples: { ipv4: '--cluster-ip 10.96.0.1', ipv6: '--cluster-ip fd00:10:96::1' },
  },
  endpoints: {
    what: 'the apiservers',
    examples: {
      ipv4: '--endpoints 10.0.0.11:6443,10.0.0.12:6443',
      ipv6: '--endpoints [fd00::11]:6443,[fd00::12]:6443',
    },
  },
};
