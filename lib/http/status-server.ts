/**
 * The HTTP server of `--listen`.
 *
 * Goal: every allowed client gets an answer, and no client can harm the agent.
 * Tension: whoever connects may be slow, many, or no HTTP at all.
 * Compromise: every connection has a limit in time, size and number.
 */
import { type Endpoint, formatEndpoint } from '../address/endpoint.ts';
import { type Clock } from '../control/clock.ts';
import { type VipnatError } from '../text/errors.ts';
import { answer } from './answer.ts';
import { createBoundedServer } from './bounded-server.ts';
import { KeptServer } from './kept-server.ts';
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

/** Serves pages from `start` to `stop`. Nothing that happens on its port ends or stops the agent. */
export class StatusServer {
  readonly #endpoint: Endpoint;
  readonly #server: KeptServer;

  constructor({ endpoint, pages, clock, onProblem, onRecovered }: StatusServerOptions) {
    this.#endpoint = endpoint;
    this.#server = new KeptServer({
      ...{ endpoint, clock, onProblem },
      create: () =>
        createBoundedServer((request, response) => {
          void answer(pages, request, response);
        }),
      title: `serve ${listPages(pages)} at ${formatEndpoint(endpoint)}`,
      remedy: '--listen takes another address, or off',
      onRecovered: () => {
        onRecovered(endpoint);
      },
    });
  }

  /** Where it listens: with the port that it got; null while it does not. */
  get endpoint(): Endpoint | null {
    const { port } = this.#server;
    return port === null ? null : { ...this.#endpoint, port };
  }

  /** Ends when it listens or has failed to; it tries again by itself then. Not to be called twice. */
  async start(): Promise<void> {
    await this.#server.start();
  }

  /** Ends when the port is free again; questions under way are cut off. */
  async stop(): Promise<void> {
    await this.#server.stop();
  }
}

function listPages(pages: ReadonlyMap<string, Page>): string {
  const paths = [...pages.keys()];
  const last = paths.pop() ?? '';
  return paths.length === 0 ? last : `${paths.join(', ')} and ${last}`;
}
