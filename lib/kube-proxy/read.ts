import type { Sourced } from '../text.ts';
import {
  type Endpoint,
  parseAddress,
  sortEndpoints,
  parseEndpoint,
  type Family,
  formatEndpoint,
} from '../net.ts';
import { type Ruleset, type Rule, type TableName, parseRule } from '../iptables/rules.ts';
import { toolName, type NftProxyOutput, familyToNft } from '../kernel/port.ts';
import type { HostProcess } from '../kernel/host.ts';
import { createHash } from 'node:crypto';

/** What kube-proxy has programmed for one port of one Service in its nftables table of one family. */
export interface NftProxyView {
  /** The rule, or the map element, that sends the ClusterIP to the service's chain. Only that makes the chain alive: stale ones stay behind. */
  readonly entryRule: Sourced<{ readonly clusterIp: string; readonly port: number }> | null;
  /** The Service's backends behind the entry rule, sorted; null without one, or when one of them cannot be read. */
  readonly backends: Sourced<readonly Endpoint[]> | null;
  /** For how long a client stays with its backend (sessionAffinity: ClientIP); null for not at all. */
  readonly affinitySeconds: number | null;
  /** The rule by which kube-proxy says that it wants the service's chain gone, or the map element by which it rejects the ClusterIP. */
  readonly unwanted: Sourced<string> | null;
}

/** The same in one backend's tables of one family. */
export interface IptablesProxyView extends NftProxyView {
  /** Whether packets from other hosts get to kube-proxy's rules at all. */
  readonly isHooked: boolean;
  /** The mark that KUBE-MARK-MASQ sets; null when that chain is absent or sets none (it can become empty). */
  readonly masqueradeMark: Sourced<number> | null;
  /** Whether these are rules of its ipvs mode. */
  readonly hasIpvsRules: boolean;
  /** Whether kube-proxy was ever here, alive or not. */
  readonly hasKubeProxyChains: boolean;
}

/**
 * Reads kube-proxy's rules for a Service's port, of version 1.18 and later. Pure and total.
 * Source: pkg/proxy/iptables/proxier.go and pkg/proxy/ipvs/proxier.go, syncProxyRules.
 */
export function readIptablesProxy(ruleset: Ruleset, service: ServicePort): IptablesProxyView {
  const entryRule = findEntryRule(ruleset, service);
  const chain = serviceChainName(service);
  return {
    entryRule,
    isHooked: findRules(ruleset, 'nat', 'PREROUTING', 'KUBE-SERVICES').some(
      ({ target }) => target === 'KUBE-SERVICES',
    ),
    backends: entryRule === null ? null : findBackends(ruleset, chain),
    affinitySeconds: entryRule === null ? null : findAffinity(ruleset, chain),
    unwanted: findUnwanted(ruleset, service, entryRule?.value.clusterIp ?? null),
    masqueradeMark: findMasqueradeMark(ruleset),
    hasIpvsRules: findRules(ruleset, 'nat', 'KUBE-SERVICES', '--match-set KUBE-CLUSTER-IP ').length > 0,
    hasKubeProxyChains: [...ruleset.tables.values()].some(
      (table) => table.has('KUBE-SERVICES') || table.has('KUBE-PROXY-CANARY'),
    ),
  };
}

/** The ClusterIP's rule comes first: kube-proxy up to 1.23 sends external addresses to the same chain after it. */
function findEntryRule(ruleset: Ruleset, service: ServicePort): IptablesProxyView['entryRule'] {
  const chain = serviceChainName(service);
  for (const rule of findRules(ruleset, 'nat', 'KUBE-SERVICES', chain)) {
    const clusterIp = rule.target === chain ? readServiceAddress(rule, ruleset, service) : null;
    if (clusterIp === null) continue;
    const value = { clusterIp, port: service.port };
    return { value, seenIn: describeChain(ruleset, 'nat', 'KUBE-SERVICES') };
  }
  return null;
}

/** The address in `-d ADDRESS/32 -p tcp … --dport 443`; null for a rule that matches anything else. A tool may hide the port. */
function readServiceAddress(
  { options }: Pick<Rule, 'options'>,
  { family, hidesPorts }: Ruleset,
  { protocol, port }: ServicePort,
): string | null {
  const isForPort = options.has('--dport') ? options.get('--dport') === String(port) : hidesPorts;
  if (options.get('-p') !== protocol || !isForPort) return null;
  const hostPrefix = family === 'ipv6' ? '/128' : '/32';
  const destination = options.get('-d') ?? '';
  if (!destination.endsWith(hostPrefix)) return null;
  return parseAddress(destination.slice(0, -hostPrefix.length))?.text ?? null;
}

/** Half a list would look like a disagreement about which backends are alive: all or nothing. */
function findBackends(ruleset: Ruleset, chain: string): IptablesProxyView['backends'] {
  const endpointChains = findRules(ruleset, 'nat', chain, 'KUBE-SEP-')
    .map(({ target }) => target ?? '')
    .filter((target) => target.startsWith('KUBE-SEP-'));
  const found = [...new Set(endpointChains)].map((endpointChain) => findTranslation(ruleset, endpointChain));
  const backends = found.filter((endpoint) => endpoint !== null);
  if (backends.length < found.length) return null;
  return { value: sortEndpoints(backends), seenIn: describeChain(ruleset, 'nat', chain) };
}

/** `-m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-…` */
function findAffinity(ruleset: Ruleset, chain: string): number | null {
  const [rule] = findRules(ruleset, 'nat', chain, '--rcheck ');
  const seconds = Number(rule?.options.get('--seconds') ?? 0);
  return Number.isSafeInteger(seconds) && seconds > 0 ? seconds : null;
}

function findTranslation(ruleset: Ruleset, chain: string): Endpoint | null {
  const rule = findRules(ruleset, 'nat', chain, '--to-destination ').find(({ target }) => target === 'DNAT');
  return parseEndpoint(rule?.options.get('--to-destination') ?? '');
}

/**
 * Without endpoints kube-proxy rejects the ClusterIP in the filter table. That half of its update succeeds even when
 * a jump of vipnat's makes the other half fail. The entry rule then stays in place (measured with kube-proxy 1.36.3).
 */
function findUnwanted(ruleset: Ruleset, service: ServicePort, clusterIp: string | null) {
  const reason = `${formatServicePort(service)} has no `;
  // Without its port a rule may be another port's of the same address.
  const sought = ruleset.hidesPorts ? reason : ` --dport ${service.port} `;
  const rule = findRules(ruleset, 'filter', 'KUBE-SERVICES', sought).find(
    ({ target, comment, ...rest }) =>
      (target === 'REJECT' || target === 'DROP') &&
      ((comment?.startsWith(reason) ?? false) ||
        (clusterIp !== null && readServiceAddress(rest, ruleset, service) === clusterIp)),
  );
  if (rule === undefined) return null;
  return { value: rule.text, seenIn: describeChain(ruleset, 'filter', 'KUBE-SERVICES') };
}

function findMasqueradeMark(ruleset: Ruleset): IptablesProxyView['masqueradeMark'] {
  for (const { target, options } of findRules(ruleset, 'nat', 'KUBE-MARK-MASQ', 'mark ')) {
    const mark = target === 'MARK' ? readMark(options.get('--set-xmark') ?? options.get('--or-mark')) : 0;
    if (mark !== 0) return { value: mark, seenIn: describeChain(ruleset, 'nat', 'KUBE-MARK-MASQ') };
  }
  return null;
}

/** `0x4000/0x4000` or `0x4000`; 0 for anything that does not set exactly these bits, such as kube-proxy's rule that clears them. */
function readMark(text: string | undefined): number {
  const match = /^(0x[0-9a-f]{1,8})(?:\/(0x[0-9a-f]{1,8}))?$/.exec(text ?? '');
  const mark = Number(match?.[1] ?? 0);
  return mark === Number(match?.[2] ?? mark) ? mark : 0;
}

/** The rules of a chain that contain a text, taken apart: only these, because KUBE-SERVICES can have 10,000 others. */
function findRules(ruleset: Ruleset, table: TableName, chain: string, text: string): Rule[] {
  const rules = ruleset.tables.get(table)?.get(chain) ?? [];
  return rules.filter((rule) => rule.includes(text)).map(parseRule);
}

function describeChain({ family, dialect }: Ruleset, table: TableName, chain: string): string {
  return `${table} ${chain} (${toolName(family, dialect)})`;
}

/**
 * Reads kube-proxy's nftables objects for a Service's port, of version 1.29 and later, as nft prints them in JSON: at
 * least those of that Service's chains. Pure and total: what has another shape is not found.
 * Source: pkg/proxy/nftables/proxier.go, syncProxyRules.
 */
export function readNftProxy(output: NftProxyOutput, service: ServicePort): NftProxyView {
  const chain = nftServiceChainName(service);
  const seenIn = (object: string) => `${object} (nft table ${familyToNft[output.family]} kube-proxy)`;
  const clusterIp = findClusterIp(output, service);
  const backends = clusterIp === null ? null : findNftBackends(output, chain);
  const unwanted = findNftUnwanted(output, service, clusterIp);
  return {
    entryRule:
      clusterIp === null
        ? null
        : { value: { clusterIp, port: service.port }, seenIn: seenIn('map service-ips') },
    backends: backends === null ? null : { value: backends, seenIn: seenIn(`chain ${chain}`) },
    affinitySeconds: clusterIp === null ? null : findNftAffinity(output, service),
    unwanted: unwanted === null ? null : { value: unwanted, seenIn: seenIn('map no-endpoint-services') },
  };
}

/** The sets of clients, one for each endpoint, are all declared alike. */
function findNftAffinity({ objects }: NftProxyOutput, service: ServicePort): number | null {
  const set = objects
    .map((object) => get(object, 'set'))
    .find((candidate) => isNftAffinitySet(service, String(get(candidate, 'name'))));
  const seconds = get(set, 'timeout');
  return typeof seconds === 'number' && Number.isSafeInteger(seconds) && seconds > 0 ? seconds : null;
}

/** Only the ClusterIP's element leads to this chain; external addresses have one of their own. */
function findClusterIp(output: NftProxyOutput, service: ServicePort): string | null {
  const chain = nftServiceChainName(service);
  const addresses = listElements(output, 'service-ips')
    .filter(({ verdict }) => readVerdictTarget(verdict) === chain)
    .map(({ key }) => readNftServiceAddress(key, output.family, service));
  const [only = null] = addresses;
  return addresses.length === 1 ? only : null;
}

/** Without the entry rule, its address is known from the comment only. */
function findNftUnwanted(output: NftProxyOutput, service: ServicePort, clusterIp: string | null) {
  const name = formatServicePort(service);
  for (const { key, comment, verdict } of listElements(output, 'no-endpoint-services')) {
    const address = readNftServiceAddress(key, output.family, service);
    if (address !== null && (comment === name || address === clusterIp)) {
      const target = readVerdictTarget(verdict) ?? '?';
      return `${address} . ${service.protocol} . ${service.port} : goto ${target}`;
    }
  }
  return null;
}

/** What nft prints for a protocol without /etc/protocols, as in small images (IANA's numbers). */
const protocolNumbers = { tcp: 6, udp: 17, sctp: 132 } as const;

/** `ADDRESS . tcp . 443`; null for any other key. */
function readNftServiceAddress(key: unknown, family: Family, service: ServicePort): string | null {
  const [text, protocol, port] = toArray(get(key, 'concat'));
  const names: readonly unknown[] = [service.protocol, protocolNumbers[service.protocol]];
  if (!names.includes(protocol) || port !== service.port) return null;
  const address = typeof text === 'string' ? parseAddress(text) : null;
  return address?.family === family ? address.text : null;
}

/** `[key, verdict]`, where the key of an element with a comment is `{elem: {val, comment}}`. */
function listElements({ objects }: NftProxyOutput, name: string) {
  const map = objects
    .map((object) => get(object, 'map'))
    .find((candidate) => get(candidate, 'name') === name);
  return toArray(get(map, 'elem')).map((element) => {
    const [key, verdict] = toArray(element);
    return { key: get(key, 'elem', 'val') ?? key, comment: get(key, 'elem', 'comment'), verdict };
  });
}

/** Half a list would look like a disagreement about which backends are alive: all or nothing. */
function findNftBackends(output: NftProxyOutput, chain: string): Endpoint[] | null {
  const found = listStatements(output, chain).flatMap((statement) => [
    ...readTranslation(statement),
    ...listTargets(statement).flatMap((target) => follow(output, target)),
  ]);
  const backends = found
    .filter((endpoint) => endpoint !== null)
    .filter(({ family }) => family === output.family);
  return backends.length === found.length ? sortEndpoints(backends) : null;
}

/** The endpoint that an endpoint chain translates to; nothing for helper chains such as mark-for-masquerade. */
function follow(output: NftProxyOutput, target: string | null): (Endpoint | null)[] {
  if (target !== null && !target.startsWith('endpoint-')) return [];
  const translations = target === null ? [] : listStatements(output, target).flatMap(readTranslation);
  return translations.length === 0 ? [null] : translations;
}

function listStatements({ objects }: NftProxyOutput, chain: string): unknown[] {
  return objects
    .map((object) => get(object, 'rule'))
    .filter((rule) => get(rule, 'chain') === chain)
    .flatMap((rule) => toArray(get(rule, 'expr')));
}

/** `dnat to 10.0.0.1:6443`, or without affinity in newer versions `dnat to numgen … map { 0 : 10.0.0.1 . 6443, … }`. */
function readTranslation(statement: unknown): (Endpoint | null)[] {
  const dnat = get(statement, 'dnat');
  if (dnat === undefined) return [];
  const address = get(dnat, 'addr');
  if (get(address, 'map') === undefined) return [toEndpoint(address, get(dnat, 'port'))];
  const elements = toArray(get(address, 'map', 'data', 'set'));
  if (elements.length === 0) return [null];
  return elements.map((element) => {
    const [, value] = toArray(element);
    const [part, port] = toArray(get(value, 'concat'));
    return toEndpoint(part, port);
  });
}

/** Where `goto`, `jump` or the verdicts of a `vmap` lead; null for a verdict that cannot be read. */
function listTargets(statement: unknown): (string | null)[] {
  const map = get(statement, 'vmap');
  if (map === undefined) {
    const target = readVerdictTarget(statement);
    return target === null ? [] : [target];
  }
  const elements = toArray(get(map, 'data', 'set'));
  return elements.length === 0 ? [null] : elements.map((element) => readVerdictTarget(toArray(element)[1]));
}

function readVerdictTarget(verdict: unknown): string | null {
  const target = get(verdict, 'goto', 'target') ?? get(verdict, 'jump', 'target');
  return typeof target === 'string' ? target : null;
}

function toEndpoint(text: unknown, port: unknown): Endpoint | null {
  const address = typeof text === 'string' ? parseAddress(text) : null;
  if (address === null || typeof port !== 'number') return null;
  return parseEndpoint(formatEndpoint({ family: address.family, address: address.text, port }));
}

/** A field of a field; undefined where the shape is another. */
function get(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (object, name) =>
      typeof object === 'object' && object !== null && Object.hasOwn(object, name)
        ? (object as Readonly<Record<string, unknown>>)[name]
        : undefined,
    value,
  );
}

function toArray(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : [];
}

/** Programs that are kube-proxy, or have it inside, as the kernel names them. */
const proxyNames: readonly string[] = ['kube-proxy', 'hyperkube', 'kubelite', 'k3s-server', 'k3s-agent'];

/** Those that are kube-proxy, or have it inside. Pure. */
export function findProxies(processes: readonly HostProcess[]): HostProcess[] {
  return processes.filter(({ name }) => proxyNames.includes(name));
}

/** How many characters of the hash come before the readable part of a name. */
const nftHashLength = 8;

/**
 * The nftables proxy's chain that holds a service port's endpoints: `service-2QRHZV4L-default/kubernetes/tcp/https`.
 * Source: pkg/proxy/nftables/proxier.go, servicePortChainNameBase.
 */
function nftServiceChainName(service: ServicePortName): string {
  const name = formatService(service);
  return `service-${hashToBase32(name, nftHashLength)}-${name}`;
}

/**
 * Whether a set of the nftables proxy holds the clients of one of a service port's endpoints (sessionAffinity: ClientIP):
 * it is called as the endpoint's chain is, but for the prefix.
 * Source: pkg/proxy/nftables/proxier.go, servicePortEndpointAffinityNamePrefix.
 */
export function isNftAffinitySet(service: ServicePortName, name: string): boolean {
  const prefix = 'affinity-';
  const readable = name.slice(prefix.length + nftHashLength);
  return name.startsWith(prefix) && readable.startsWith(`-${formatService(service)}__`);
}

function formatService({ namespace, name, protocol, portName }: ServicePortName): string {
  return `${namespace}/${name}/${protocol}/${portName}`;
}

/** RFC 4648, the alphabet of Go's base32.StdEncoding. */
const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

const bitsPerCharacter = 5;

/** The first characters of the base32 text of a SHA-256: how kube-proxy makes names short. At most 51 are asked for. */
export function hashToBase32(text: string, length: number): string {
  const digest = createHash('sha256').update(text).digest();
  const bits = Array.from(digest, (byte) => byte.toString(2).padStart(8, '0')).join('');
  return Array.from({ length }, (_, index) => {
    const start = index * bitsPerCharacter;
    return alphabet.charAt(Number.parseInt(bits.slice(start, start + bitsPerCharacter), 2));
  }).join('');
}

/**
 * The iptables proxy's chain that holds a service port's endpoints, `KUBE-SVC-…`, the same in both families.
 * Source: pkg/proxy/iptables/proxier.go, portProtoHash and servicePortPolicyClusterChain.
 */
export function serviceChainName(service: ServicePortName): string {
  // More characters of the hash the name of a chain of iptables has no room for.
  return `KUBE-SVC-${hashToBase32(`${formatServicePort(service)}${service.protocol}`, 16)}`;
}

/** What identifies one port of one Service: kube-proxy's ServicePortName. All names of chains are made of it. */
export interface ServicePortName {
  readonly namespace: string;
  readonly name: string;
  /** Empty for the only port of a Service that does not name it. */
  readonly portName: string;
  readonly protocol: 'tcp' | 'udp' | 'sctp';
}

/** One port of one Service, by which kube-proxy's rules for it are found. */
export interface ServicePort extends ServicePortName {
  /** Its number at the ClusterIP. */
  readonly port: number;
}

/** `default/kubernetes:https`, without the colon when the port has no name: kube-proxy's text for a service port. */
export function formatServicePort({ namespace, name, portName }: ServicePortName): string {
  return `${namespace}/${name}${portName === '' ? '' : `:${portName}`}`;
}

/**
 * The Service that every control plane publishes itself under: its endpoints are the apiservers. What the API's VIP needs
 * to know of a Service is read with this one.
 * Source: pkg/controlplane/controller/kubernetesservice.
 */
export const kubernetesService: ServicePort = {
  namespace: 'default',
  name: 'kubernetes',
  portName: 'https',
  protocol: 'tcp',
  port: 443,
};

/** KUBE-SVC-NPX46M4PTMTKRN6Y: the iptables proxy's chain with its endpoints. */
export const serviceChain = serviceChainName(kubernetesService);

/** `service-2QRHZV4L-default/kubernetes/tcp/https`: the nftables proxy's chain with its endpoints. */
export const nftServiceChain = nftServiceChainName(kubernetesService);
