import { createServer, type RequestListener, type Server } from 'node:http';
import { type Socket } from 'node:net';

/** kubelet, Prometheus and a few people; each question takes milliseconds. Of one address of theirs, fewer. */
const maxConnections = 32;
const maxOfAddress = 8;

/** A question is one packet, and its answer is ready at once: whoever takes longer is no client of ours. */
const limits = {
  headersTimeout: 3000,
  requestTimeout: 3000,
  keepAliveTimeout: 5000,
  connectionsCheckingInterval: 1000,
  maxHeaderSize: 8192,
};

/** Node's own limit for what it keeps of a question; a browser sends twenty. */
const maxHeadersCount = 50;

/** A client that does not read its answer holds its connection no longer than this. */
const idleMs = 10_000;

/**
 * A server of HTTP to which anybody may connect: bounded in number, size and time. Each connection is asked one question
 * at a time; one that asks the next before it has its answer is closed. Where there are too many connections, the oldest one that asks
 * nothing goes: so who keeps connections open, or opens one after the other, keeps nobody out. It keeps no process alive.
 */
export function createBoundedServer(listener: RequestListener): Server {
  const asking = new WeakSet<Socket>();
  const server = createServer(limits, (request, response) => {
    const { socket } = request;
    // No client of ours does. A packet has room for two thousand questions, and all their answers would be made at once.
    if (asking.has(socket)) {
      socket.destroy();
      return;
    }
    asking.add(socket);
    response.once('close', () => asking.delete(socket));
    response.on('error', () => undefined);
    listener(request, response);
  });
  const open = new Set<Socket>();
  server.on('connection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    makeRoom(open, socket, asking);
  });
  server.maxHeadersCount = maxHeadersCount;
  server.setTimeout(idleMs);
  // The signal to end must not wait for whoever asks.
  server.unref();
  return server;
}

/** Closes connections, the oldest first, until there are no more than there may be: of the newest one's address, and of all. */
function makeRoom(open: Set<Socket>, newest: Socket, asking: WeakSet<Socket>): void {
  const { remoteAddress } = newest;
  const ofAddress = [...open].filter((socket) => socket.remoteAddress === remoteAddress);
  if (ofAddress.length > maxOfAddress) close(ofAddress);
  if (open.size > maxConnections) close([...open]);

  function close(sockets: readonly Socket[]): void {
    const socket = sockets.find((one) => !asking.has(one)) ?? newest;
    open.delete(socket);
    socket.destroy();
  }
}
