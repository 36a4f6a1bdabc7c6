import ipaddr from 'ipaddr.js';
import { type Family, parseAddress } from '../address/address.ts';
import { type Endpoint, sortEndpoints } from '../address/endpoint.ts';
import { VipnatError } from '../text/errors.ts';
import { servicePort } from './kubernetes-service.ts';
import { type Sourced } from '../text/sourced.ts';

/** One virtual server of IPVS. */
export interface VirtualServer {
  /** `TCP`, `UDP`, `SCTP`, or `FWM` for one that is chosen by firewall mark. */
  readonly protocol: string;
  /** Port 0 stands for every port; null for a firewall mark. */
  readonly address: Endpoint | null;
  readonly scheduler: string;
  /** For how long a client stays with its real server; null for not at all. */
  readonly persistentSeconds: number | null;
  readonly realServers: readonly RealServer[];
}

/** One real server of a virtual server. */
export interface RealServer {
  /** Port 0 stands for the port that was asked for. */
  readonly endpoint: Endpoint;
  /** Its share of new connections; 0 gets none. */
  readonly weight: number;
}

/** What is known about the Service whose virtual server is looked for. */
export interface ServiceQuestion {
  readonly family: Family;
  /** The ClusterIP, when it is known. */
  readonly clusterIp?: string;
  /** This host's addresses: on a master, its own apiserver's is one of them. */
  readonly localAddresses: readonly string[];
}

/** The Service's virtual server, or why it cannot be told: one of the two is null. */
export interface ServiceServer {
  readonly server: Sourced<{
    readonly clusterIp: string;
    readonly port: number;
    /** The real servers that get new connections, sorted. */
    readonly backends: readonly Endpoint[];
    readonly affinitySeconds: number | null;
  }> | null;
  readonly reason: string | null;
}

/** A TCP server on the Service's port. */
interface Candidate {
  readonly address: string;
  readonly backends: readonly Endpoint[];
  readonly affinitySeconds: number | null;
}

/** Where IPVS shows its servers; empty or absent while it has none. */
const source = '/proc/net/ip_vs';

/** kube-apiserver's --secure-port, unless it is set. */
const apiserverPort = 6443;

/** A line of foreign text that goes into a message stays readable. */
const maxQuotedCharacters = 80;

/**
 * Reads /proc/net/ip_vs, without flags and connection counts.
 * Source: net/netfilter/ipvs/ip_vs_ctl.c, ip_vs_info_seq_show (Linux 4.1 to 6.18).
 * @throws VipnatError TOOL_OUTPUT_UNEXPECTED for a line that function does not print.
 */
export function parseIpvs(text: string): VirtualServer[] {
  const servers: VirtualServer[] = [];
  let realServers: RealServer[] | null = null;
  for (const line of text.split('\n')) {
    if (line === '' || isHeading(line)) continue;
    if (line.startsWith('  -> ')) {
      if (realServers === null) throw unexpected(line);
      realServers.push(readRealServer(line));
    } else {
      realServers = [];
      servers.push({ ...readVirtualServer(line), realServers });
    }
  }
  return servers;
}

/**
 * Finds the virtual server of default/kubernetes. IPVS knows no names, and a wrong guess would send the control
 * plane's traffic to another Service: without the ClusterIP there must be exactly one that can be it. Pure and total.
 */
export function findServiceServer(
  servers: readonly VirtualServer[],
  { family, clusterIp, localAddresses }: ServiceQuestion,
): ServiceServer {
  const onPort = servers.flatMap(({ protocol, address, realServers, persistentSeconds }) =>
    protocol === 'TCP' && address?.family === family && address.port === servicePort
      ? [
          {
            address: address.address,
            backends: findActive(realServers),
            affinitySeconds: persistentSeconds,
          },
        ]
      : [],
  );
  if (clusterIp === undefined) return guess(onPort, new Set(localAddresses));
  const wanted = parseAddress(clusterIp)?.text;
  const given = onPort.find(({ address }) => address === wanted);
  return given === undefined
    ? { server: null, reason: `${source} has no TCP server ${clusterIp}:${servicePort}` }
    : toAnswer(given);
}

function isHeading(line: string): boolean {
  return (
    line.startsWith('IP Virtual Server version ') ||
    line.startsWith('Prot LocalAddress:Port ') ||
    line.startsWith('  -> RemoteAddress:Port ')
  );
}

/** `TCP  0A600001:01BB rr ops persistent 10800 FFFFFFFF`, or `FWM  00000001 rr `. */
function readVirtualServer(line: string): Omit<VirtualServer, 'realServers'> {
  const [, protocol = '', local = '', scheduler = ''] = /^([A-Z]\w*) {2}(\S+) (\S+)(?: |$)/.exec(line) ?? [];
  const address = readAddress(local);
  const isMark = protocol === 'FWM' && /^[0-9A-F]{8}$/.test(local);
  if (address === null && !isMark) throw unexpected(line);
  const [, seconds] = / persistent (\d+) [0-9A-F]{8}/.exec(line) ?? [];
  return { protocol, address, scheduler, persistentSeconds: seconds === undefined ? null : Number(seconds) };
}

/** `  -> 0A4D000D:192B      Masq    1      0          0         ` */
function readRealServer(line: string): RealServer {
  const [, remote = '', weight = ''] = /^ {2}-> (\S+) +\w+ +(\d+) +\d+ +\d+ *$/.exec(line) ?? [];
  const endpoint = readAddress(remote);
  if (endpoint === null) throw unexpected(line);
  return { endpoint, weight: Number(weight) };
}

/** `0A600001:01BB`, or `[fd00:0000:…:0001]:01BB` with all its zeros. */
function readAddress(text: string): Endpoint | null {
  const match = /^(?:([0-9A-F]{8})|\[([0-9a-f:]+)\]):([0-9A-F]{4})$/.exec(text);
  const [, ipv4 = '', ipv6 = '', port = ''] = match ?? [];
  const octets = ipv4.match(/../g)?.map((octet) => Number.parseInt(octet, 16));
  const address = parseAddress(octets?.join('.') ?? ipv6);
  if (address === null) return null;
  return { family: address.family, address: address.text, port: Number.parseInt(port, 16) };
}

function findActive(realServers: readonly RealServer[]): Endpoint[] {
  return sortEndpoints(realServers.filter(({ weight }) => weight > 0).map(({ endpoint }) => endpoint));
}

/**
 * The Service's address is the first of its range, and no other Service's of that range is lower: what is lower than
 * a likely server and could be first of a range may be the right one with its apiservers gone.
 */
function guess(servers: readonly Candidate[], localAddresses: ReadonlySet<string>): ServiceServer {
  const ordered = servers
    .filter(({ address }) => isFirstOfRange(address))
    .sort((a, b) => (toSortKey(a.address) < toSortKey(b.address) ? -1 : 1));
  const last = ordered.findLastIndex(({ backends }) => isLikely(backends, localAddresses));
  const contenders = ordered.slice(0, last + 1);
  const [only] = contenders;
  if (only !== undefined && contenders.length === 1) return toAnswer(only);
  const names = contenders.map(({ address }) => address).join(', ');
  const problem =
    only === undefined
      ? 'no server can be that of default/kubernetes'
      : `each of ${names} can be the server of default/kubernetes`;
  return { server: null, reason: `in ${source} ${problem}: name it with --cluster-ip` };
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

function toAnswer({ address, backends, affinitySeconds }: Candidate): ServiceServer {
  return {
    server: { value: { clusterIp: address, port: servicePort, backends, affinitySeconds }, seenIn: source },
    reason: null,
  };
}

function unexpected(line: string): VipnatError {
  const quoted = JSON.stringify(line.slice(0, maxQuotedCharacters));
  return new VipnatError(
    'TOOL_OUTPUT_UNEXPECTED',
    `${source} has a line that no known kernel prints: ${quoted}`,
  );
}
