import { type Family, parseAddress } from '../../address/address.ts';
import { type Endpoint } from '../../address/endpoint.ts';
import { createNetlinkClient, type NetlinkClient } from './netlink.ts';
import { dumpList } from './netlink-dump.ts';

/**
 * Ends this host's own TCP connections to a VIP that have the VIP as their source, as `ss -K` does; answers how many. Their
 * programs get ECONNABORTED. Takes a kernel with CONFIG_INET_DIAG_DESTROY. Rejects with NETLINK_FAILED or TOOL_NOT_PERMITTED.
 */
export async function abortOwnConnections(vip: Endpoint): Promise<number> {
  const client = createNetlinkClient('sock-diag');
  try {
    let count = 0;
    for (const family of socketFamilies[vip.family]) count += await abortAll(client, family, vip);
    return count;
  } finally {
    client.close();
  }
}

// linux/sock_diag.h, linux/inet_diag.h
const SOCK_DIAG_BY_FAMILY = 20;
const SOCK_DESTROY = 21;
const IPPROTO_TCP = 6;
const AF_INET = 2;
const AF_INET6 = 10;

/** A socket for both families has its IPv4 addresses mapped into IPv6. */
const socketFamilies: Readonly<Record<Family, readonly number[]>> = {
  ipv4: [AF_INET, AF_INET6],
  ipv6: [AF_INET6],
};

/** Of include/net/tcp_states.h, all in which a program may wait: neither TIME_WAIT, CLOSE nor LISTEN. */
const openStates = [1, 2, 4, 5, 8, 9, 11].reduce((mask, state) => mask | (1 << state), 0);

/** struct inet_diag_req_v2: the struct inet_diag_sockid begins at 8; in struct inet_diag_msg it does at 4. */
const requestBytes = 56;
const idBytes = 48;
const messageBytes = 72;

async function abortAll(client: NetlinkClient, family: number, vip: Endpoint): Promise<number> {
  let count = 0;
  for (const socket of await listOwn(client, family, vip)) {
    if (await abort(client, { family, socket, vip })) count += 1;
  }
  return count;
}

/** The ids of the sockets from the VIP to the VIP. The kernel chooses by the port. */
async function listOwn(
  client: NetlinkClient,
  family: number,
  { address, port }: Endpoint,
): Promise<Buffer[]> {
  const id = Buffer.alloc(idBytes);
  id.writeUInt16BE(port, 2);
  const messages = await dumpList(client, {
    question: SOCK_DIAG_BY_FAMILY,
    answer: SOCK_DIAG_BY_FAMILY,
    payload: renderRequest(family, id),
    leastBytes: messageBytes,
    subject: 'TCP connections',
  });
  return messages
    .map((data) => Buffer.from(data.subarray(4, 4 + idBytes)))
    .filter((one) => [4, 20].every((at) => readAddress(one.subarray(at, at + 16), family) === address));
}

/** Answers whether it was there still. */
async function abort(
  client: NetlinkClient,
  { family, socket, vip }: { readonly family: number; readonly socket: Buffer; readonly vip: Endpoint },
): Promise<boolean> {
  const payload = renderRequest(family, socket);
  const subject = `the end of connections from ${vip.address} itself`;
  try {
    await client.request({ type: SOCK_DESTROY, payload, isDump: false, isOrder: true, subject });
    return true;
  } catch (error) {
    if (((error as Error).cause as NodeJS.ErrnoException | undefined)?.code === 'ENOENT') return false;
    throw error;
  }
}

function renderRequest(family: number, id: Buffer): Buffer {
  const request = Buffer.alloc(requestBytes);
  request.writeUInt8(family, 0);
  request.writeUInt8(IPPROTO_TCP, 1);
  request.writeUInt32LE(openStates, 4);
  id.copy(request, 8);
  return request;
}

/** As a VIP is written. */
function readAddress(bytes: Buffer, family: number): string | null {
  if (family === AF_INET) return bytes.subarray(0, 4).join('.');
  const isMapped = bytes.subarray(0, 12).equals(mappedPrefix);
  if (isMapped) return bytes.subarray(12).join('.');
  return parseAddress(bytes.toString('hex').match(/.{4}/g)?.join(':') ?? '')?.text ?? null;
}

/** ::ffff:0:0/96 */
const mappedPrefix = Buffer.from('00000000000000000000ffff', 'hex');
