import { createNetlinkClient } from '../netlink/netlink.ts';
import { type NetlinkMessage, parseAttributes } from '../netlink/netlink-messages.ts';

/** A Unix socket that listens, as the kernel knows it. */
export interface ListeningSocket {
  /** Its number, which no other socket has while it is there. */
  readonly inode: number;
  /** The user who made it, as this user namespace counts; null where the kernel does not tell (before Linux 5.3). */
  readonly userId: number | null;
}

/**
 * Finds the socket that listens at an abstract name, given without its NUL, in this network namespace; null when there is
 * none. The kernel reports its owner, so a listener cannot forge it. Needs no rights.
 * @throws VipnatError NETLINK_FAILED
 */
export async function findListeningSocket(name: string): Promise<ListeningSocket | null> {
  const client = createNetlinkClient('sock-diag');
  try {
    const subject = 'the Unix sockets that listen';
    const messages = await client.request({
      type: SOCK_DIAG_BY_FAMILY,
      payload: question(),
      isDump: true,
      subject,
    });
    return messages.map((message) => readSocket(message, name)).find((found) => found !== null) ?? null;
  } finally {
    client.close();
  }
}

// linux/sock_diag.h, linux/unix_diag.h, linux/socket.h, net/tcp_states.h
const SOCK_DIAG_BY_FAMILY = 20;
const AF_UNIX = 1;
const TCP_LISTEN = 10;
const UDIAG_SHOW_NAME = 0x01;
const UDIAG_SHOW_UID = 0x40;
const UNIX_DIAG_NAME = 0;
const UNIX_DIAG_UID = 7;
const unixDiagReqBytes = 24;
const unixDiagMsgBytes = 16;

/** struct unix_diag_req: all that listen, with name and user. */
function question(): Buffer {
  const request = Buffer.alloc(unixDiagReqBytes);
  request.writeUInt8(AF_UNIX, 0);
  request.writeUInt32LE(1 << TCP_LISTEN, 4);
  request.writeUInt32LE(UDIAG_SHOW_NAME | UDIAG_SHOW_UID, 12);
  return request;
}

/** Reads a struct unix_diag_msg; null for a socket of another name, or for what is no such message. Total. */
export function readSocket({ type, data }: NetlinkMessage, name: string): ListeningSocket | null {
  if (type !== SOCK_DIAG_BY_FAMILY || data.length < unixDiagMsgBytes) return null;
  const attributes = parseAttributes(data, unixDiagMsgBytes);
  if (attributes.get(UNIX_DIAG_NAME)?.equals(Buffer.from(`\0${name}`)) !== true) return null;
  const user = attributes.get(UNIX_DIAG_UID);
  return { inode: data.readUInt32LE(4), userId: user?.length === 4 ? user.readUInt32LE() : null };
}
