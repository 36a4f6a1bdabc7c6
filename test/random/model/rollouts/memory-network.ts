/** A network in memory between processes and the API: what node:https would carry, with the faults that a network has. */
import type { LifeClock } from './life-clock.ts';
import { ApiRoute, type ApiAccess } from '../../../../lib/kubernetes/route.ts';
import type { RequestOptions } from 'node:https';
import type { ClientRequest } from 'node:http';
import { EventEmitter } from 'node:events';
import { Readable } from 'node:stream';

export interface Question {
  readonly method: string;
  readonly url: URL;
  readonly contentType: string;
  readonly text: string;
}

export interface Reply {
  readonly status: number;
  readonly text: string;
}

export interface OpenWatch {
  readonly link: Link;
  readonly question: Question;
  readonly send: (line: string) => void;
  /** Ends it in order, or as a connection that breaks. */
  readonly end: (isBroken: boolean) => void;
  readonly isOpen: () => boolean;
}

/** What answers: at once. */
export interface Server {
  answer(question: Question): Reply;
  watch(watch: OpenWatch): void;
  /** How long questions and answers take, besides what the way takes; null for a server that answers nobody. */
  readonly delayMs: number | null;
}

/** The way of one process to the API. */
export class Link {
  readonly clock: LifeClock;
  readonly #server: Server;
  /** Nothing comes through, and nobody says so. */
  isCut = false;
  /** What is open stays open, and is silent: a frozen server, or a frozen way to it. */
  isFrozen = false;
  delayMs = 2;
  /** Called with each text that arrives here, and the question that it answers. */
  onTold: (question: Question, text: string) => void = () => undefined;

  constructor(clock: LifeClock, server: Server) {
    this.clock = clock;
    this.#server = server;
  }

  /** Whether what a watch says gets here now. */
  get isOpen(): boolean {
    return !this.isCut && !this.isFrozen && !this.clock.isKilled && this.#server.delayMs !== null;
  }

  /** One way, with the server's own time. */
  get tripMs(): number {
    return this.delayMs + (this.#server.delayMs ?? 0);
  }

  createRoute(): ApiRoute {
    const access: ApiAccess = {
      ...{ origin: 'a test', host: '10.0.9.250', port: 6443, serverName: '10.0.9.250', isInCluster: false },
      ...{ tls: {}, headers: {} },
      request: (options) => this.#ask(options),
    };
    return new ApiRoute(() => Promise.resolve(access), [], null);
  }

  #ask(options: RequestOptions): ClientRequest {
    const asked = new Asked(options, (text) => {
      const headers = options.headers as Readonly<Record<string, string>>;
      this.#send(asked, {
        method: options.method ?? 'GET',
        url: new URL(options.path ?? '/', 'https://api'),
        contentType: headers['content-type'] ?? '',
        text,
      });
    });
    return asked as unknown as ClientRequest;
  }

  #send(asked: Asked, question: Question): void {
    this.clock.schedule(this.tripMs, () => {
      // Nobody answers: the question ends by its own limit.
      if (this.isCut || this.#server.delayMs === null) return;
      if (question.url.searchParams.get('watch') === 'true') this.#watch(asked, question);
      else this.#answer(asked, question);
    });
  }

  #answer(asked: Asked, question: Question): void {
    const { status, text } = this.#server.answer(question);
    this.clock.schedule(this.tripMs, () => {
      if (this.isCut || this.isFrozen || asked.destroyed) return;
      if (status < 300) this.onTold(question, text);
      const response = asked.respond(status);
      response.push(text);
      response.push(null);
    });
  }

  #watch(asked: Asked, question: Question): void {
    if (asked.destroyed) return;
    const response = asked.respond(200);
    this.#server.watch({
      ...{ link: this, question },
      send: (line) => {
        this.onTold(question, line);
        response.push(`${line}\n`);
      },
      end: (isBroken) => {
        if (isBroken) asked.break(Object.assign(new Error('reset'), { code: 'ECONNRESET' }));
        else response.push(null);
      },
      isOpen: () => !asked.destroyed && !response.destroyed && !response.readableEnded,
    });
  }
}

/** A question under way, as node:http has it. */
class Asked extends EventEmitter {
  destroyed = false;
  readonly socket = null;
  readonly #onEnd: (text: string) => void;
  #response: Readable | null = null;

  constructor({ signal }: RequestOptions, onEnd: (text: string) => void) {
    super();
    this.#onEnd = onEnd;
    const abort = () => {
      this.break(Object.assign(new Error('aborted'), { code: 'ABORT_ERR' }));
    };
    if (signal?.aborted === true) queueMicrotask(abort);
    else signal?.addEventListener('abort', abort, { once: true });
  }

  setSocketKeepAlive(): void {
    // Hosts that are gone are noticed by silence here.
  }

  end(text = ''): void {
    this.#onEnd(text);
  }

  respond(statusCode: number): Readable {
    const response = Object.assign(new Readable({ read: () => undefined }), { statusCode });
    this.#response = response;
    this.emit('response', response);
    return response;
  }

  break(error: Error): void {
    if (this.destroyed) return;
    if (this.#response === null) this.emit('error', error);
    else this.#response.destroy(error);
    this.destroyed = true;
  }

  destroy(): void {
    this.destroyed = true;
    this.#response?.destroy();
  }
}
