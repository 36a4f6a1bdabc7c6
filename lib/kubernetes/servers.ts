import { isIP } from 'node:net';
import { parseAddress } from '../address/address.ts';
import { type Endpoint, formatEndpoint } from '../address/endpoint.ts';
import { classifyAddress } from '../address/scope.ts';
import { type ApiAccess } from './access.ts';

/** Where a connection to the API can go. */
export interface ApiServer {
  /** A name, or an address without brackets. */
  readonly host: string;
  readonly port: number;
}

/** Who may be asked: the apiservers that are known, from wherever, and which addresses are this host's own. */
export interface KnownApiservers {
  readonly endpoints: readonly Endpoint[];
  readonly localAddresses: ReadonlySet<string>;
  /** Where this host's own apiserver would be, which nobody names. Nowhere when left out. */
  readonly own?: readonly Endpoint[];
}

/** kube-apiserver's own default (--secure-port). */
const usualPort = 6443;

/**
 * Where to ask, best first, and never by a virtual IP: that would be our own rules. An address that the credentials
 * name; else the apiserver of this host, then the others; one of this host that nobody names after all of them; a ClusterIP
 * and a name last, for the one needs kube-proxy and the other DNS. While no apiserver is known, this host may have one. Pure.
 */
export function listApiServers(
  { host, port, isInCluster }: Pick<ApiAccess, 'host' | 'port' | 'isInCluster'>,
  known: KnownApiservers,
  vips: readonly Endpoint[],
): ApiServer[] {
  const named = { host: parseAddress(host)?.text ?? host, port };
  const isVip = vips.some(({ address }) => address === named.host);
  const isFirst = isIP(host) !== 0 && !isVip && !isInCluster;
  const redirected = listRedirected(known, vips);
  const isAnybodyNamed = known.endpoints.some((endpoint) => !isAtVip(endpoint, vips));
  const servers = [
    ...(isFirst ? [named] : []),
    ...redirected.map(({ address, port }) => ({ host: address, port })),
    ...(isAnybodyNamed || isFirst ? [] : guessLocal(port, isInCluster)),
    ...(isFirst || isVip ? [] : [named]),
  ];
  return [...new Map(servers.map((server) => [formatServer(server), server])).values()];
}

/**
 * Whether probes find the apiserver there down. One at a loopback address is this host's own; what stands behind a name or
 * a ClusterIP nobody probes. `unwell` has those who are down by their text, see `formatEndpoint`. Pure.
 */
export function isUnhealthy(
  { host, port }: ApiServer,
  { endpoints, localAddresses }: KnownApiservers,
  unwell: ReadonlySet<string>,
): boolean {
  if (unwell.has(formatServer({ host, port }))) return true;
  const address = parseAddress(host);
  if (address === null || classifyAddress(address) !== 'loopback') return false;
  const own = endpoints.filter((endpoint) => endpoint.port === port && localAddresses.has(endpoint.address));
  return own.length > 0 && own.every((endpoint) => unwell.has(formatEndpoint(endpoint)));
}

/** `10.0.0.11:6443`, `[fd00::11]:6443`, `api.example.com:6443`. */
export function formatServer({ host, port }: ApiServer): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Those of this host first, and where one of it would be that nobody names last. */
function listRedirected(
  { endpoints, localAddresses, own = [] }: KnownApiservers,
  vips: readonly Endpoint[],
): Endpoint[] {
  const isLocal = ({ address }: Endpoint) => localAddresses.has(address);
  const others = endpoints.filter((endpoint) => !isLocal(endpoint));
  return [...endpoints.filter(isLocal), ...others, ...own].filter((endpoint) => !isAtVip(endpoint, vips));
}

function isAtVip({ address }: Endpoint, vips: readonly Endpoint[]): boolean {
  return vips.some((vip) => vip.address === address);
}

function guessLocal(port: number, isInCluster: boolean): ApiServer[] {
  const ports = isInCluster ? [usualPort] : [port, usualPort];
  return ports.map((port) => ({ host: '127.0.0.1', port }));
}
