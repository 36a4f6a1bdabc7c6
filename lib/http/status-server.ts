/**
 * The HTTP server of `--listen`.
 *
 * Goal: every allowed client gets an answer, and no client can harm the agent.
 * Tension: the port may be taken, the address may be one that this host does not have yet, and whoever connects may
 * be slow, many, or no HTTP at all.
 * Compromise: it is tried again and again, said once; and every connection has a limit in time, size and number.
 */
import { type Server } from 'node:http';
import { type Endpoint, formatEndpoint } from '../address/endpoint.ts';
import { VipnatError } from '../text/errors.ts';
import { type Cancel, type Clock } from '../control/clock.ts';
import { backOff } from '../control/backoff.ts';
import { answer } from './answer.ts';
import { createBoundedServer } from './bounded-server.ts';
import { type Page } from './page.ts';

/** What the server needs of the world, and its listeners. */
export interface StatusServerOptions {
  /** Port 0 takes any that is free. */
  readonly endpoint: Endpoint;
  readonly pages: ReadonlyMap<string, Page>;
  readonly clock: Clock;
  /** It cannot listen, for the first time in a row: LISTEN_FAILED. It goes on trying. */
  readonly onProblem: (problem: VipnatError) => void;
  /** It listens after all. Not called when that went well at once. */
  readonly onRecovered: (endpoint: Endpoint) => void;
}

const firstRetryMs = 1000;
const maxRetryMs = 60_000;

/** Serves pages from `start` to `stop`. Nothing that happens on its port ends or stops the agent. */
export class StatusServer {
  readonly #options: StatusServerOptions;
  #server: Server | null = null;
  #failures = 0;
  #cancelRetry: Cancel = () => undefined;
  #isStopped = false;

  constructor(options: StatusServerOptions) {
    this.#options = options;
  }

  /** Where it listens: with the port that it got; null while it does not. */
  get endpoint(): Endpoint | null {
    const bound = this.#server?.address();
    if (bound === null || bound === undefined || typeof bound === 'string') return null;
    return { ...this.#options.endpoint, port: bound.port };
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
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }

  async #listen(): Promise<void> {
    const { endpoint, pages, onRecovered } = this.#options;
    const server = createBoundedServer((request, response) => {
      void answer(pages, request, response);
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
    if (this.#failures > 0) onRecovered(endpoint);
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
function tryToListen(server: Server, { address, port }: Endpoint): Promise<Error | null> {
  return new Promise((resolve) => {
    server.once('error', resolve);
    server.listen({ host: address, port }, () => {
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

function toProblem({ endpoint, pages }: StatusServerOptions, error: NodeJS.ErrnoException): VipnatError {
  const cause = codeToCause[error.code ?? ''] ?? error.code ?? error.message;
  const what = `vipnat cannot serve ${listPages(pages)} at ${formatEndpoint(endpoint)}: ${cause}`;
  const next = 'vipnat keeps trying. --listen takes another address, or off';
  return new VipnatError('LISTEN_FAILED', `${what}. ${next}`, { cause: error });
}

function listPages(pages: ReadonlyMap<string, Page>): string {
  const paths = [...pages.keys()];
  const last = paths.pop() ?? '';
  return paths.length === 0 ? last : `${paths.join(', ')} and ${last}`;
}
