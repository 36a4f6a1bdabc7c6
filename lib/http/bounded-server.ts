import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import { type Socket } from 'node:net';
import { type Clock } from '../control/clock.ts';
import { HandshakeBudget } from './handshake-budget.ts';

/** How many connections a server has. */
interface ConnectionLimits {
  readonly connections: number;
  readonly ofAddress: number;
}

/** kubelet, Prometheus and a few people; each question takes milliseconds. Of one address of theirs, fewer. */
const ofPeople: ConnectionLimits = { connections: 32, ofAddress: 8 };

/**
 * An API server makes a connection for each question that it asks at a time, and keeps 25 (k8s.io/client-go, transport, cache.go). Several can come
 * from one address, where it is translated.
 */
const ofApiServers: ConnectionLimits = { connections: 256, ofAddress: 128 };

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

/** API servers close what they do not use after 90 s. To be sooner can meet a question, which they ask once only. */
const keptMs = 120_000;

/** Nobody's handshake takes longer. */
const handshakeMs = 3000;

/**
 * A server of HTTP to which anybody may connect: bounded in number, size and time. Each connection is asked one question
 * at a time; one that asks the next before it has its answer is closed. Where there are too many connections, the oldest one goes that asks
 * nothing, of the address that has most: so who keeps connections open, or opens one after the other, keeps nobody out. It keeps no process alive.
 */
export function createBoundedServer(listener: RequestListener): Server {
  const { open, listen } = new Connections(ofPeople);
  const server = createServer(limits, listen(listener));
  server.on('connection', open);
  server.setTimeout(idleMs);
  return finish(server);
}

/** What a server of TLS needs of the world, and its listener. */
export interface TlsServerOptions {
  readonly certificate: string;
  readonly key: string;
  readonly clock: Clock;
  /** A connection was one too many in a second, and is closed before its handshake. */
  readonly onRefused: () => void;
}

/**
 * The same for TLS and API servers, with another certificate whenever `setSecureContext` brings one. So many connections may begin in a second,
 * see `HandshakeBudget`. One too many closes no other.
 */
export function createBoundedTlsServer(options: TlsServerOptions, listener: RequestListener): TlsServer {
  const { open, secure, listen } = new Connections(ofApiServers);
  const server = createTlsServer(
    {
      ...{ ...limits, keepAliveTimeout: keptMs, handshakeTimeout: handshakeMs },
      ...{ cert: options.certificate, key: options.key, minVersion: 'TLSv1.2' },
    },
    listen(listener),
  );
  server.on('connection', open);
  limitHandshakes(server, options);
  server.on('secureConnection', secure);
  server.setTimeout(keptMs + idleMs);
  return finish(server);
}

/** Node begins the handshake in a listener of its own. So that is called from here, as others are that are there by now, and not for each connection. */
function limitHandshakes(server: TlsServer, { clock, onRefused }: TlsServerOptions): void {
  const budget = new HandshakeBudget(clock);
  const listeners = server.listeners('connection') as ((socket: Socket) => void)[];
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    if (!budget.take(socket.remoteAddress ?? '')) {
      // By an end in order, the kernel would keep each for a minute more (TIME_WAIT).
      socket.resetAndDestroy();
      onRefused();
      return;
    }
    for (const listener of listeners) listener.call(server, socket);
  });
}

function finish<S extends Server | TlsServer>(server: S): S {
  server.maxHeadersCount = maxHeadersCount;
  // The signal to end must not wait for whoever asks.
  server.unref();
  return server;
}

/** The connections of one server. */
class Connections {
  readonly #limits: ConnectionLimits;
  /** The oldest first. */
  readonly #open = new Set<Socket>();
  readonly #asking = new WeakSet<Socket>();
  /** What TLS has made of a connection, to that. */
  readonly #tlsToSocket = new WeakMap<Socket, Socket>();

  constructor(limits: ConnectionLimits) {
    this.#limits = limits;
  }

  readonly open = (socket: Socket): void => {
    this.#open.add(socket);
    socket.once('close', () => this.#open.delete(socket));
    this.#makeRoom(socket);
  };

  readonly secure = (tls: Socket): void => {
    const isSame = ({ remoteAddress, remotePort }: Socket) =>
      remotePort === tls.remotePort && remoteAddress === tls.remoteAddress;
    const socket = [...this.#open].find(isSame);
    if (socket !== undefined) this.#tlsToSocket.set(tls, socket);
  };

  readonly listen = (listener: RequestListener): RequestListener => {
    return (request, response) => {
      const socket = this.#tlsToSocket.get(request.socket) ?? request.socket;
      // No client of ours does. A packet has room for two thousand questions, and all their answers would be made at once.
      if (this.#asking.has(socket)) {
        request.socket.destroy();
        return;
      }
      this.#asking.add(socket);
      response.once('close', () => this.#asking.delete(socket));
      response.on('error', () => undefined);
      listener(request, response);
    };
  };

  /** Closes connections, the oldest first, until there are no more than there may be: of the newest one's address, and of all. Then one goes of the address that has most. */
  #makeRoom(newest: Socket): void {
    const { remoteAddress } = newest;
    const ofAddress = [...this.#open].filter((socket) => socket.remoteAddress === remoteAddress);
    if (ofAddress.length > this.#limits.ofAddress) this.#close(ofAddress, newest);
    if (this.#open.size > this.#limits.connections) this.#close(this.#listMost(), newest);
  }

  /** Who connects from several addresses would take those of all others, which are older. */
  #listMost(): readonly Socket[] {
    const groups = Map.groupBy(this.#open, ({ remoteAddress }) => remoteAddress);
    return [...groups.values()].reduce((most, one) => (one.length > most.length ? one : most));
  }

  #close(sockets: readonly Socket[], newest: Socket): void {
    const socket = sockets.find((one) => !this.#asking.has(one)) ?? newest;
    this.#open.delete(socket);
    socket.destroy();
  }
}
