/**
 * A server that listens for as long as it is let.
 *
 * Goal: a port that is taken now may be free later, and nothing that happens on a port ends the program.
 * Tension: the address may be one that this host does not have yet.
 * Compromise: it is tried again and again, said once.
 */
import { type Server } from 'node:http';
import { type Socket } from 'node:net';
import { backOff } from '../control/backoff.ts';
import { type Cancel, type Clock } from '../control/clock.ts';
import { VipnatError } from '../text/errors.ts';

/** What it needs of the world, and its listeners. */
export interface KeptServerOptions {
  /** Without an address: all of this host, of whatever family. Port 0 takes any that is free. */
  readonly endpoint: { readonly address?: string; readonly port: number };
  /** Makes one, for each attempt. */
  readonly create: () => Server;
  readonly clock: Clock;
  /** What it cannot do, as a sentence goes on after `vipnat cannot`, and what a person can do. */
  readonly title: string;
  readonly remedy: string;
  /** It cannot listen, for the first time in a row: LISTEN_FAILED. It goes on trying. */
  readonly onProblem: (problem: VipnatError) => void;
  /** It listens after all. Not called when that went well at once. */
  readonly onRecovered: () => void;
}

const firstRetryMs = 1000;
const maxRetryMs = 60_000;

/** Listens from `start` to `stop`. */
export class KeptServer {
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

  /** The one that listens; null while none does. */
  get server(): Server | null {
    return this.#server;
  }

  /** At which it listens: the one that it got; null while it does not. */
  get port(): number | null {
    const bound = this.#server?.address();
    return bound === null || bound === undefined || typeof bound === 'string' ? null : bound.port;
  }

  /** Ends when it listens or has failed to; it tries again by itself then. Not to be called twice. */
  async start(): Promise<void> {
    await this.#listen();
  }

  /** Ends when the port is free again; questions under way are cut off. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelRetry();
    const server = this.#server;
    if (server === null) return;
    this.#server = null;
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  }

  async #listen(): Promise<void> {
    const { endpoint, create, onRecovered } = this.#options;
    const server = create();
    server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    const error = await tryToListen(server, endpoint);
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
      this.#restart(problem);
    });
    if (this.#failures > 0) onRecovered();
    this.#failures = 0;
  }

  #restart(error: Error): void {
    this.#server?.close();
    this.#server = null;
    if (!this.#isStopped) this.#fail(error);
  }

  #fail(error: NodeJS.ErrnoException): void {
    const { clock, onProblem } = this.#options;
    if (this.#failures === 0) onProblem(toProblem(this.#options, error));
    this.#cancelRetry = clock.schedule(
      backOff(this.#failures, firstRetryMs, maxRetryMs),
      () => void this.#listen(),
    );
    this.#failures += 1;
  }
}

/** Answers why it cannot, or null. */
function tryToListen(
  server: Server,
  { address, port }: KeptServerOptions['endpoint'],
): Promise<Error | null> {
  return new Promise((resolve) => {
    server.once('error', resolve);
    server.listen({ port, ...(address === undefined ? {} : { host: address }) }, () => {
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
