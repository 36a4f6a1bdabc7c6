import type * as z from 'zod/mini';
import { type Clock } from '../control/clock.ts';
import { VipnatError } from '../text/errors.ts';
import { exchange } from './exchange.ts';
import { readJson } from './read-json.ts';
import { describeStatus } from './request.ts';
import { type ApiRoute, type Connection } from './route.ts';
import { formatServer } from './servers.ts';
import { type ObjectWrite, type WriteAnswer, writeObject } from './write-object.ts';

/** The answer to a read of one object. */
export type ReadAnswer<T> =
  | { readonly outcome: 'found'; readonly object: T }
  /** There is no such object. */
  | { readonly outcome: 'gone' }
  | { readonly outcome: 'forbidden'; readonly words: string }
  | { readonly outcome: 'unreachable'; readonly words: string };

/** An object to read. */
export interface ObjectRead<T> {
  /** What it is for, to begin a sentence with: `reading Lease x`. */
  readonly title: string;
  readonly path: string;
  readonly schema: z.ZodMiniType<T>;
}

/** Reads and writes single objects. Neither rejects, and each ends within its limit. */
export interface ObjectClient {
  read<T>(read: ObjectRead<T>, limitMs: number): Promise<ReadAnswer<T>>;
  write(write: ObjectWrite, limitMs: number): Promise<WriteAnswer>;
}

/** No object that is read one by one is larger. */
const maxLength = 2_000_000;

const accepted: ReadonlySet<number> = new Set([200, 403, 404]);

/** A client of the apiservers of a route. One that does not answer is not the first to be asked next. */
export class RoutedClient implements ObjectClient {
  readonly #route: ApiRoute;
  readonly #clock: Clock;
  readonly #signal: AbortSignal;

  /** What is under way ends when the signal comes. */
  constructor(route: ApiRoute, clock: Clock, signal: AbortSignal) {
    this.#route = route;
    this.#clock = clock;
    this.#signal = signal;
  }

  async read<T>({ title, path, schema }: ObjectRead<T>, limitMs: number): Promise<ReadAnswer<T>> {
    return await this.#ask(async (options) => {
      const limits = { beginMs: limitMs, endMs: limitMs };
      const { status, text } = await exchange({ ...options, title, path, limits, accepted }, maxLength);
      if (status === 404) return { outcome: 'gone' };
      const what = `${title} at ${formatServer(options.server)}`;
      if (status === 403) {
        return { outcome: 'forbidden', words: `${what} is answered with 403${describeStatus(text)}` };
      }
      const parsed = schema.safeParse(readJson(text));
      if (parsed.success) return { outcome: 'found', object: parsed.data };
      return { outcome: 'unreachable', words: `${what} failed: the answer is not such an object` };
    });
  }

  async write(write: ObjectWrite, limitMs: number): Promise<WriteAnswer> {
    return await this.#ask((options) => writeObject({ ...options, limitMs }, write));
  }

  async #ask<Answer extends { readonly outcome: string }>(
    ask: (options: Connection & Common) => Promise<Answer>,
  ): Promise<Answer | Failure> {
    let connection: Connection | null = null;
    try {
      connection = await this.#route.choose();
      const common = { clock: this.#clock, forbidden: this.#route.forbidden, signal: this.#signal };
      const answer = await ask({ ...connection, ...common });
      if (answer.outcome === 'unreachable') this.#route.markFailed(connection.server);
      return answer;
    } catch (error) {
      if (connection !== null) this.#route.markFailed(connection.server);
      return toFailure(error);
    }
  }
}

interface Common {
  readonly clock: Clock;
  readonly forbidden: ReadonlySet<string>;
  readonly signal: AbortSignal;
}

interface Failure {
  readonly outcome: 'forbidden' | 'unreachable';
  readonly words: string;
  readonly version: null;
}

function toFailure(error: unknown): Failure {
  const outcome =
    error instanceof VipnatError && error.code === 'API_FORBIDDEN' ? 'forbidden' : 'unreachable';
  return { outcome, words: error instanceof Error ? error.message : String(error), version: null };
}
