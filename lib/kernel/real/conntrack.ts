import { formatEndpoint, parseEndpoint, type Endpoint } from '../../address/endpoint.ts';
import { readAddresses } from '../netlink/addresses.ts';
import { execTool, runTool, type ToolCall } from '../tools/exec.ts';
import { type FlowSelection } from '../port.ts';
import { toolFailed } from '../tools/tool-errors.ts';

/**
 * Deletes the conntrack entries of connections to a VIP that were sent to one backend; answers how many. The next
 * packet of such a connection is for the VIP's holder itself, which knows nothing of it and answers with a reset. A
 * first packet that is sent again is balanced anew.
 */
export async function deleteFlows(selection: FlowSelection, limitMs: number): Promise<number> {
  const call: ToolCall = { tool: 'conntrack', arguments: toArguments(selection), limitMs };
  const { exitCode, stderr } = await execTool(call);
  const deleted = readDeleted(stderr);
  // conntrack 1.4.7 ends with 1 when nothing matched, as it does on errors; only then it says how many.
  if (deleted === null) throw toolFailed({ tool: call.tool, exitCode, stderr, input: '' });
  return deleted;
}

/** What conntrack is given. By the original destination, so nobody else's connections to this backend are met. */
export function toArguments({ vip, backend, isHalfOpen }: FlowSelection): string[] {
  return [
    ...['-D', '-f', vip.family, '-p', 'tcp'],
    ...['--orig-dst', vip.address, '--orig-port-dst', String(vip.port)],
    ...['--reply-src', backend.address, '--reply-port-src', String(backend.port)],
    ...(isHalfOpen ? ['--state', 'SYN_SENT'] : []),
  ];
}

/** conntrack 1.4.7, on standard error: `conntrack v1.4.7 (conntrack-tools): 3 flow entries have been deleted.` */
export function readDeleted(stderr: string): number | null {
  const [, count] = /: (\d+) flow entries have been deleted/.exec(stderr) ?? [];
  return count === undefined ? null : Number(count);
}

/**
 * How many established connections to a VIP each backend has, by its text, see formatEndpoint. Where the VIP is elsewhere, only this host's
 * own can go on here. Those of others end without a word to this host, whose kernel keeps them for up to five days.
 */
export async function countFlows(vip: Endpoint, limitMs: number): Promise<ReadonlyMap<string, number>> {
  const listing = await runTool({
    tool: 'conntrack',
    arguments: [
      ...['-L', '-f', vip.family, '-p', 'tcp', '--state', 'ESTABLISHED'],
      ...['--orig-dst', vip.address, '--orig-port-dst', String(vip.port)],
    ],
    limitMs,
    isPatient: true,
  });
  const own = new Set((await readAddresses()).map(({ address }) => address));
  return countByBackend(listing, own.has(vip.address) ? null : own);
}

/** Of what `conntrack -L` printed: how many connections each backend answers, by its text; of these clients, or of all. Pure and total. */
export function countByBackend(
  listing: string,
  clients: ReadonlySet<string> | null = null,
): ReadonlyMap<string, number> {
  const backendToCount = new Map<string, number>();
  for (const line of listing.split('\n')) {
    const [, client = ''] = /\bsrc=(\S+)/.exec(line) ?? [];
    if (clients?.has(client) === false) continue;
    const backend = readAnswering(line);
    if (backend !== null) backendToCount.set(backend, (backendToCount.get(backend) ?? 0) + 1);
  }
  return backendToCount;
}

/** `… src=CLIENT dst=VIP sport=40000 dport=6443 src=BACKEND dst=CLIENT sport=6443 dport=40000 [ASSURED] …` */
function readAnswering(line: string): string | null {
  const words = line.split(' ');
  const [, address = ''] = words.filter((word) => word.startsWith('src=')).map((word) => word.slice(4));
  const [, port = ''] = words.filter((word) => word.startsWith('sport=')).map((word) => word.slice(6));
  const endpoint = parseEndpoint(address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`);
  return endpoint === null ? null : formatEndpoint(endpoint);
}
