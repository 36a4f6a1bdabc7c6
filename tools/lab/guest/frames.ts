/**
 * What goes over the connection of a command, after the request: frames of a type, a length and that many bytes. An
 * empty `stdin` ends the command's standard input; the end of the connection itself means that the client is gone.
 */
export const frameTypes = { stdin: 0, stdout: 1, stderr: 2, exit: 3 } as const;

/** The first line of a connection. */
export interface GuestRequest {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

/** Where a guest takes commands, on a link of its own. */
export const guestAddress = '169.254.77.2';
/** The other end of that link. */
export const enclosureAddress = '169.254.77.1';
/** The guest's port. */
export const guestPort = 7777;

const headerLength = 5;

/** One frame. */
export function encodeFrame(type: number, payload: Buffer): Buffer {
  const header = Buffer.alloc(headerLength);
  header.writeUInt8(type, 0);
  header.writeUInt32BE(payload.length, 1);
  return Buffer.concat([header, payload]);
}

/** Takes bytes as they come, and hands on whole frames. */
export function createFrameReader(onFrame: (type: number, payload: Buffer) => void): (bytes: Buffer) => void {
  let pending: Buffer = Buffer.alloc(0);
  return (bytes) => {
    pending = Buffer.concat([pending, bytes]);
    while (pending.length >= headerLength) {
      const end = headerLength + pending.readUInt32BE(1);
      if (pending.length < end) return;
      onFrame(pending.readUInt8(0), pending.subarray(headerLength, end));
      pending = pending.subarray(end);
    }
  };
}
