import { type RequestListener, type Server, createServer } from 'node:http';
import { type Clock, type Cancel, backOff } from '../clock.ts';
import { type Server as TlsServer, createServer as createTlsServer } from 'node:https';
import type { ListenOptions, Socket } from 'node:net';
import { VipnatError } from '../errors.ts';

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

/** A question is one packet, and its answer is ready immediately: whoever takes longer is no client of vipnat. */
const limits = {
  headersTimeout: 3000,
  requestTimeout: 3000,
  keepAliveTimeout: 5000,
  connectionsCheckingInterval: 1000,
  maxHeaderSize: 8192,
};

/** Viewers of a page that changes, apart from all others: who watches keeps no probe out. One address keeps no other out. */
const viewerLimits: ConnectionLimits = { connections: 128, ofAddress: 16 };

/**
 * Answers a question. `keep` is for an answer that does not end: from then on, its connection is a viewer's. It answers whether there is room for one
 * more.
 */
export type BoundedListener = (...given: [...Parameters<RequestListener>, keep: () => boolean]) => void;

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
export function createBoundedServer(listener: BoundedListener): Server {
  const { open, listen } = new Connections(ofPeople);
  const server = createServer(limits, listen(listener));
  server.on('connection', open);
  server.setTimeout(idleMs);
  return finish(server);
}

interface TlsServerOptions {
  readonly certificate: string;
  readonly key: string;
  readonly clock: Clock;
  /** A connection was one too many in a second, and is closed before its handshake. */
  readonly onRefused: () => void;
}

/**
 * The same for TLS and API servers, with another certificate whenever `setSecureContext` brings one. So many connections may begin in a second,
 * see `limitByAddress`. One too many closes no other.
 */
export function createBoundedTlsServer(options: TlsServerOptions, listener: BoundedListener): TlsServer {
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
  const mayBegin = limitByAddress(clock);
  const listeners = server.listeners('connection') as ((socket: Socket) => void)[];
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    if (!mayBegin(socket.remoteAddress ?? '')) {
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

class Connections {
  readonly #limits: ConnectionLimits;
  /** The oldest first. */
  readonly #open = new Set<Socket>();
  readonly #asking = new WeakSet<Socket>();
  readonly #viewers = new Set<Socket>();
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

  readonly listen = (listener: BoundedListener): RequestListener => {
    return (request, response) => {
      const socket = this.#tlsToSocket.get(request.socket) ?? request.socket;
      // No client of vipnat does. A packet has room for two thousand questions, and all their answers would be made at the same time.
      if (this.#asking.has(socket)) {
        request.socket.destroy();
        return;
      }
      this.#asking.add(socket);
      response.once('close', () => this.#asking.delete(socket));
      response.on('error', () => undefined);
      listener(request, response, () => this.#keep(socket));
    };
  };

  #keep(socket: Socket): boolean {
    const { connections, ofAddress } = viewerLimits;
    const same = [...this.#viewers].filter(({ remoteAddress }) => remoteAddress === socket.remoteAddress);
    if (this.#viewers.size >= connections || same.length >= ofAddress) return false;
    this.#open.delete(socket);
    this.#viewers.add(socket);
    socket.once('close', () => this.#viewers.delete(socket));
    return true;
  }

  /** Closes connections, the oldest first, until there are no more than there may be: of the newest one's address, and of all. Then one goes of the address that has most. */
  #makeRoom(newest: Socket): void {
    const { remoteAddress } = newest;
    const ofAddress = [...this.#open].filter((socket) => socket.remoteAddress === remoteAddress);
    if (ofAddress.length > this.#limits.ofAddress) this.#close(ofAddress, newest);
    if (this.#open.size <= this.#limits.connections) return;
    // Who connects from several addresses would take those of all others, which are older.
    const groups = Map.groupBy(this.#open, (socket) => socket.remoteAddress);
    const largest = [...groups.values()].reduce((most, one) => (one.length > most.length ? one : most));
    this.#close(largest, newest);
  }

  #close(sockets: readonly Socket[], newest: Socket): void {
    const socket = sockets.find((one) => !this.#asking.has(one)) ?? newest;
    this.#open.delete(socket);
    socket.destroy();
  }
}

/**
 * A server that listens for as long as it is let.
 *
 * Goal: a port that is taken now may be free later, and nothing that happens on a port ends the program.
 * Tension: the address may be one that this host does not have yet.
 * Compromise: it is tried again and again, said once.
 */

/** Its dependencies and listeners. */
export interface KeptServerOptions {
  /** Without an address: all of this host, of whatever family. Port 0 takes any that is free. */
  readonly endpoint: { readonly address?: string; readonly port: number };
  readonly clock: Clock;
  /** What it cannot do, as a sentence continues after `vipnat cannot`, and what a person can do. */
  readonly title: string;
  readonly remedy: string;
  /** It cannot listen, for the first time in a row: LISTEN_FAILED. It keeps trying. */
  readonly onProblem: (problem: VipnatError) => void;
  /** It listens after all. Not called when the first attempt succeeded. */
  readonly onRecovered: () => void;
}

const firstRetryMs = 1000;
const maxRetryMs = 60_000;

/** Listens from `start` to `stop`. */
export abstract class KeptServer {
  readonly #options: KeptServerOptions;
  #server: Server | null = null;
  /** Node's own list of connections has none whose TLS is still agreed upon. Such a one would hold up the end for minutes. */
  readonly #sockets = new Set<Socket>();
  #failures = 0;
  #cancelRetry: Cancel = () => undefined;
  #isStopped = false;

  constructor(options: KeptServerOptions) {
    this.#options = options;
  }

  /** Makes a server, for each attempt. */
  protected abstract create(): Server;

  /** At which it listens: the one that it got; null while it does not. */
  get port(): number | null {
    const bound = this.#server?.address();
    return bound === null || bound === undefined || typeof bound === 'string' ? null : bound.port;
  }

  /** Ends when it listens or has failed to; it tries again by itself then. Not to be called twice from outside. */
  async start(): Promise<void> {
    const { endpoint, onRecovered } = this.#options;
    const server = this.create();
    server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    const { address = '::', port } = endpoint;
    // Without a host, Node.js takes every address, also of a kernel that has no IPv6.
    const error = await tryToListen(server, address === '::' ? { port } : { port, host: address });
    if (this.#isStopped) {
      server.close();
      return;
    }
    if (error !== null) {
      this.#fail(error);
      return;
    }
    this.#server = server;
    // It would end the process otherwise.
    server.on('error', (problem) => {
      this.#server?.close();
      this.#server = null;
      if (!this.#isStopped) this.#fail(problem);
    });
    if (this.#failures > 0) onRecovered();
    this.#failures = 0;
  }

  /** Ends when the port is free again; questions in progress are cut off. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelRetry();
    const server = this.#server;
    if (server === null) return;
    this.#server = null;
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  }

  #fail(error: NodeJS.ErrnoException): void {
    const { clock, onProblem } = this.#options;
    if (this.#failures === 0) onProblem(toProblem(this.#options, error));
    const waitMs = backOff(this.#failures, firstRetryMs, maxRetryMs);
    this.#cancelRetry = clock.schedule(waitMs, () => void this.start());
    this.#failures += 1;
  }
}

/** Answers why it cannot, or null. */
export function tryToListen(server: Server, options: ListenOptions): Promise<NodeJS.ErrnoException | null> {
  return new Promise((resolve) => {
    server.once('error', resolve);
    server.listen(options, () => {
      server.off('error', resolve);
      resolve(null);
    });
  });
}

const codeToCause: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another program has that port',
  EADDRNOTAVAIL: 'this host does not have that address',
  EACCES: 'only root may use that port',
};

function toProblem({ title, remedy }: KeptServerOptions, error: NodeJS.ErrnoException): VipnatError {
  const cause = codeToCause[error.code ?? ''] ?? error.code ?? error.message;
  const what = `vipnat cannot ${title}: ${cause}`;
  return new VipnatError('LISTEN_FAILED', `${what}. vipnat keeps trying. ${remedy}`, { cause: error });
}

/** How much there is at a time, and how much comes back in a second. */
export interface Allowance {
  readonly capacity: number;
  readonly ofSecond: number;
}

/** How much may be done of something that anybody can ask for: the process has other work. Full at first. */
export class Budget {
  readonly #allowance: Allowance;
  readonly #clock: Clock;
  #left: number;
  #filledAt: number;

  constructor(allowance: Allowance, clock: Clock) {
    this.#allowance = allowance;
    this.#clock = clock;
    this.#left = allowance.capacity;
    this.#filledAt = clock.now();
  }

  /** How much may be done now. */
  get left(): number {
    const { capacity, ofSecond } = this.#allowance;
    const now = this.#clock.now();
    this.#left = Math.min(capacity, this.#left + ((now - this.#filledAt) * ofSecond) / 1000);
    this.#filledAt = now;
    return this.#left;
  }

  /** Whether nothing is taken that has not come back. */
  get isFull(): boolean {
    return this.left >= this.#allowance.capacity;
  }

  /** Whether so much more may be done now. It counts as soon as it may. */
  take(count: number): boolean {
    if (this.left < count) return false;
    this.#left -= count;
    return true;
  }
}

/**
 * A handshake takes half a millisecond of a processor, so all of them take a thirtieth of one. One burst may have twice as many as there may be
 * connections: API servers that start again connect for each question.
 */
const ofAll: Allowance = { capacity: 512, ofSecond: 64 };

/** One address leaves half of it to others. */
const ofAddress: Allowance = { capacity: 256, ofSecond: 32 };

/**
 * How many TLS connections may begin: anybody may connect, and each handshake costs the process a signature. Answers whether one more of an
 * address may begin now. It counts as soon as it may.
 */
function limitByAddress(clock: Clock): (address: string) => boolean {
  const all = new Budget(ofAll, clock);
  // Addresses of which a full budget is not known. There are no more than there may be connections at the same time.
  const addressToBudget = new Map<string, Budget>();
  return (address) => {
    for (const [other, { isFull }] of addressToBudget) if (isFull) addressToBudget.delete(other);
    const own = addressToBudget.get(address) ?? new Budget(ofAddress, clock);
    if (all.left < 1 || !own.take(1)) return false;
    addressToBudget.set(address, own);
    return all.take(1);
  };
}
