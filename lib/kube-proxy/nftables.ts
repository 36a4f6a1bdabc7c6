import { familyToNft } from '../kernel/netlink/nft-chains.ts';
import { type Family, parseAddress } from '../address/address.ts';
import { type Endpoint, formatEndpoint, parseEndpoint, sortEndpoints } from '../address/endpoint.ts';
import { type NftProxyOutput } from '../kernel/port.ts';
import { type Sourced } from '../text/sourced.ts';
import { isNftAffinitySet, nftServiceChainName } from './nft-service.ts';
import { formatServicePort, type ServicePort } from './service-port.ts';

/** What kube-proxy has programmed for one port of one Service in its nftables table of one family. */
export interface NftProxyView {
  /** The map element that sends the ClusterIP to the service's chain. */
  readonly liveEdge: Sourced<{ readonly clusterIp: string; readonly port: number }> | null;
  /** The Service's backends behind the live edge, sorted; null without one, or when one of them cannot be read. */
  readonly backends: Sourced<readonly Endpoint[]> | null;
  /** For how long a client stays with its backend (sessionAffinity: ClientIP); null for not at all. */
  readonly affinitySeconds: number | null;
  /** The map element by which kube-proxy rejects the ClusterIP for want of endpoints. */
  readonly unwanted: Sourced<string> | null;
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
  const backends = clusterIp === null ? null : findBackends(output, chain);
  const unwanted = findUnwanted(output, service, clusterIp);
  return {
    liveEdge:
      clusterIp === null
        ? null
        : { value: { clusterIp, port: service.port }, seenIn: seenIn('map service-ips') },
    backends: backends === null ? null : { value: backends, seenIn: seenIn(`chain ${chain}`) },
    affinitySeconds: clusterIp === null ? null : findAffinity(output, service),
    unwanted: unwanted === null ? null : { value: unwanted, seenIn: seenIn('map no-endpoint-services') },
  };
}

/** The sets of clients, one for each endpoint, are all declared alike. */
function findAffinity({ objects }: NftProxyOutput, service: ServicePort): number | null {
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
    .map(({ key }) => readServiceAddress(key, output.family, service));
  const [only = null] = addresses;
  return addresses.length === 1 ? only : null;
}

/** Without the edge, its address is known from the comment only. */
function findUnwanted(output: NftProxyOutput, service: ServicePort, clusterIp: string | null): string | null {
  const name = formatServicePort(service);
  for (const { key, comment, verdict } of listElements(output, 'no-endpoint-services')) {
    const address = readServiceAddress(key, output.family, service);
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
function readServiceAddress(key: unknown, family: Family, service: ServicePort): string | null {
  const [text, protocol, port] = toArray(get(key, 'concat'));
  const names: readonly unknown[] = [service.protocol, protocolNumbers[service.protocol]];
  if (!names.includes(protocol) || port !== service.port) return null;
  const address = typeof text === 'string' ? parseAddress(text) : null;
  return address?.family === family ? address.text : null;
}

interface MapElement {
  readonly key: unknown;
  readonly comment: unknown;
  readonly verdict: unknown;
}

/** `[key, verdict]`, where the key of an element with a comment is `{elem: {val, comment}}`. */
function listElements({ objects }: NftProxyOutput, name: string): MapElement[] {
  const map = objects
    .map((object) => get(object, 'map'))
    .find((candidate) => get(candidate, 'name') === name);
  return toArray(get(map, 'elem')).map((element) => {
    const [key, verdict] = toArray(element);
    return { key: get(key, 'elem', 'val') ?? key, comment: get(key, 'elem', 'comment'), verdict };
  });
}

/** Half a list would look like a disagreement about which backends are alive: all or nothing. */
function findBackends(output: NftProxyOutput, chain: string): Endpoint[] | null {
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
