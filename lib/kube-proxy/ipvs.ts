import { type Endpoint, type Family, parseAddress, sortEndpoints } from '../net.ts';
import type { Sourced } from '../text.ts';
import type { ServicePort } from './read.ts';
import { outputUnexpected, type VipnatError } from '../errors.ts';

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

/** A virtual server of a Service's port, and where it was seen. */
export type FoundServer = Sourced<{
  readonly clusterIp: string;
  readonly port: number;
  /** The real servers that get new connections, sorted. */
  readonly backends: readonly Endpoint[];
  /** For how long a client stays with its backend; null for not at all. */
  readonly affinitySeconds: number | null;
}>;

/** The Service's virtual server, or why it is not known: one of the two is null. */
export interface ServiceServer {
  readonly server: FoundServer | null;
  readonly reason: string | null;
}

type ServerQuestion = Pick<ServicePort, 'protocol' | 'port'> & { readonly family: Family };

/** Where IPVS shows its servers; empty or absent while it has none. */
export const ipvsSource = '/proc/net/ip_vs';

/**
 * Reads /proc/net/ip_vs, without flags and connection counts.
 * Source: net/netfilter/ipvs/ip_vs_ctl.c, ip_vs_info_seq_show (Linux 4.1 to 6.18).
 * @throws VipnatError TOOL_OUTPUT_UNEXPECTED for a line that function does not print.
 */
export function parseIpvs(text: string): VirtualServer[] {
  const servers: VirtualServer[] = [];
  let realServers: RealServer[] | null = null;
  for (const line of text.split('\n')) {
    if (line === '' || heading.test(line)) continue;
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

/** Finds the virtual server of a Service's port at its ClusterIP. IPVS knows no names. Pure and total. */
export function findServiceServer(
  servers: readonly VirtualServer[],
  { family, protocol, port, clusterIp }: ServerQuestion & { readonly clusterIp: string },
): ServiceServer {
  const wanted = parseAddress(clusterIp)?.text;
  const server = listServersOnPort(servers, { family, protocol, port }).find(
    ({ value }) => value.clusterIp === wanted,
  );
  if (server !== undefined) return { server, reason: null };
  const reason = `${ipvsSource} has no ${protocol.toUpperCase()} virtual server ${clusterIp}:${port}`;
  return { server: null, reason };
}

/** The virtual servers of a family that can be of a Service's port: those with its number and protocol. Pure and total. */
export function listServersOnPort(
  servers: readonly VirtualServer[],
  { family, protocol, port }: ServerQuestion,
): FoundServer[] {
  return servers.flatMap(({ protocol: name, address, realServers, persistentSeconds: affinitySeconds }) => {
    if (name !== protocol.toUpperCase() || address?.family !== family || address.port !== port) return [];
    const active = realServers.filter(({ weight }) => weight > 0);
    const backends = sortEndpoints(active.map(({ endpoint }) => endpoint));
    return [{ value: { clusterIp: address.address, port, backends, affinitySeconds }, seenIn: ipvsSource }];
  });
}

const heading = /^(?:IP Virtual Server version|Prot LocalAddress:Port| {2}-> RemoteAddress:Port) /;

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

function unexpected(line: string): VipnatError {
  return outputUnexpected(`${ipvsSource} has a line that no known kernel prints`, line);
}
