import ipaddr from 'ipaddr.js';
import { type Family } from '../../lib/address/address.ts';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import {
  findServiceServer,
  type FoundServer,
  ipvsSource,
  listServersOnPort,
  type ServiceServer,
  type VirtualServer,
} from '../../lib/kube-proxy/ipvs.ts';
import { kubernetesService } from '../../lib/kube-proxy/kubernetes-service.ts';

/** What is known about the Service default/kubernetes, whose virtual server is looked for. */
export interface ServiceQuestion {
  readonly family: Family;
  /** The ClusterIP, when it is known. */
  readonly clusterIp?: string;
  /** This host's addresses: on a master, its own apiserver's is one of them. */
  readonly localAddresses: readonly string[];
}

/** kube-apiserver's --secure-port, unless it is set. */
const apiserverPort = 6443;

/**
 * Finds the virtual server of default/kubernetes. IPVS knows no names, and a wrong guess would send the control
 * plane's traffic to another Service: without the ClusterIP there must be exactly one that can be it. Pure and total.
 */
export function findKubernetesServer(
  servers: readonly VirtualServer[],
  { family, clusterIp, localAddresses }: ServiceQuestion,
): ServiceServer {
  const question = { ...kubernetesService, family };
  return clusterIp === undefined
    ? guess(listServersOnPort(servers, question), new Set(localAddresses))
    : findServiceServer(servers, { ...question, clusterIp });
}

/**
 * The Service's address is the first of its range, and no other Service's of that range is lower: what is lower than
 * a likely server and could be first of a range may be the right one with its apiservers gone.
 */
function guess(servers: readonly FoundServer[], localAddresses: ReadonlySet<string>): ServiceServer {
  const ordered = servers
    .filter(({ value }) => isFirstOfRange(value.clusterIp))
    .sort((a, b) => (toSortKey(a.value.clusterIp) < toSortKey(b.value.clusterIp) ? -1 : 1));
  const last = ordered.findLastIndex(({ value }) => isLikely(value.backends, localAddresses));
  const contenders = ordered.slice(0, last + 1);
  const [only] = contenders;
  if (only !== undefined && contenders.length === 1) return { server: only, reason: null };
  const names = contenders.map(({ value }) => value.clusterIp).join(', ');
  const problem =
    only === undefined
      ? `no virtual server in ${ipvsSource} fits default/kubernetes`
      : `each of ${names} in ${ipvsSource} can be the virtual server of default/kubernetes`;
  return { server: null, reason: `${problem}. Name the ClusterIP with --cluster-ip` };
}

/**
 * The apiserver takes address 1 of a range of at least 8 addresses, so its last three bits are 001.
 * Source: pkg/controlplane/apiserver/options, ServiceIPRange.
 */
function isFirstOfRange(address: string): boolean {
  const lastByte = ipaddr.parse(address).toByteArray().at(-1) ?? 0;
  return lastByte % 8 === 1;
}

function isLikely(backends: readonly Endpoint[], localAddresses: ReadonlySet<string>): boolean {
  if (backends.length === 0) return false;
  return (
    backends.some(({ address }) => localAddresses.has(address)) ||
    backends.every(({ port }) => port === apiserverPort)
  );
}

function toSortKey(address: string): string {
  return Buffer.from(ipaddr.parse(address).toByteArray()).toString('hex');
}
