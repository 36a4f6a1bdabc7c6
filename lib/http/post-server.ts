/**
 * A server of HTTPS that answers one kind of question: a text that is posted to one path.
 *
 * Goal: whoever asks gets the answer in the time that it takes to read the question.
 * Tension: anybody may connect, send much, or nothing.
 * Compromise: connections, how many begin in a second, the length of a text, and how much is read in a second are limited. The certificate may change while it runs.
 */
import { type IncomingMessage, type ServerResponse } from 'node:http';
import { type Server as TlsServer } from 'node:https';
import { createSecureContext } from 'node:tls';
import { type Clock } from '../control/clock.ts';
import { type VipnatError } from '../text/errors.ts';
import { createBoundedTlsServer } from './bounded-server.ts';
import { type Allowance, Budget } from './budget.ts';
import { KeptServer } from './kept-server.ts';

/** As much as waits at a time, and as much as is read in a second: hundreds of pods. To read a megabyte takes some milliseconds. */
const ofBytes: Allowance = { capacity: 32_000_000, ofSecond: 8_000_000 };

/** A certificate and its key, both as PEM. */
export interface KeyPair {
  readonly certificate: string;
  readonly key: string;
}

/** Whether TLS takes a pair: it refuses a key that is too short, and a chain of which one part is no certificate. A server throws then. */
export function canServeWith({ certificate, key }: KeyPair): boolean {
  try {
    createSecureContext({ cert: certificate, key });
    return true;
  } catch {
    return false;
  }
}

/** What the server needs of the world, and its listeners. */
export interface PostServerOptions {
  /** At all addresses of this host. 0 takes any that is free. */
  readonly port: number;
  readonly path: string;
  readonly maxBytes: number;
  readonly clock: Clock;
  /** Answers a text with JSON; null for one that it cannot read. */
  readonly answer: (text: string) => string | null;
  /** A question was refused: it could not be read, was too long, or one too many. So is a connection that was one too many. */
  readonly onRefused: () => void;
  /** See `KeptServerOptions`. */
  readonly title: string;
  readonly remedy: string;
  readonly onProblem: (problem: VipnatError) => void;
  readonly onRecovered: () => void;
}

/** Answers from `start` to `stop`. */
export class PostServer {
  readonly #options: PostServerOptions;
  readonly #server: KeptServer;
  readonly #bytes: Budget;
  #pair: KeyPair | null = null;
  #tls: TlsServer | null = null;
  #isEnding = false;

  constructor(options: PostServerOptions) {
    this.#options = options;
    this.#bytes = new Budget(ofBytes, options.clock);
    this.#server = new KeptServer({ ...options, endpoint: options, create: () => this.#create() });
  }

  /** Where it listens; null while it does not. */
  get port(): number | null {
    return this.#server.port;
  }

  /** Serves with this pair from now on. Open connections stay as they are. */
  setPair(pair: KeyPair): void {
    this.#pair = pair;
    this.#tls?.setSecureContext({ cert: pair.certificate, key: pair.key });
  }

  /** Ends when it listens or has failed to; it tries again by itself then. It must have a pair, see `canServeWith`. Not to be called twice. */
  async start(): Promise<void> {
    await this.#server.start();
  }

  /** From now on each connection ends with its next answer, so that clients connect elsewhere. */
  end(): void {
    this.#isEnding = true;
  }

  /** Ends when the port is free again; questions under way are cut off. */
  async stop(): Promise<void> {
    await this.#server.stop();
  }

  #create(): TlsServer {
    if (this.#pair === null) throw new Error('the server has no certificate');
    const { clock, onRefused } = this.#options;
    this.#tls = createBoundedTlsServer({ ...this.#pair, clock, onRefused }, (request, response) => {
      this.#receive(request, response);
    });
    return this.#tls;
  }

  #receive(request: IncomingMessage, response: ServerResponse): void {
    const { path, maxBytes } = this.#options;
    if (request.method !== 'POST' || request.url?.split('?')[0] !== path) {
      this.#refuse(response, 404);
      return;
    }
    const parts: Buffer[] = [];
    let bytes = 0;
    request.on('data', (part: Buffer) => {
      if (response.writableEnded) return;
      bytes += part.length;
      if (bytes > maxBytes) this.#refuse(response, 413);
      else if (this.#bytes.take(part.length)) parts.push(part);
      else this.#refuse(response, 429);
    });
    request.on('end', () => {
      if (!response.writableEnded) this.#answer(Buffer.concat(parts).toString(), response);
    });
  }

  #answer(question: string, response: ServerResponse): void {
    const text = this.#options.answer(question);
    if (text === null) {
      this.#refuse(response, 400);
      return;
    }
    if (this.#isEnding) response.setHeader('connection', 'close');
    response.writeHead(200, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
    });
    response.end(text);
  }

  /** What is still on its way is not read. */
  #refuse(response: ServerResponse, status: number): void {
    this.#options.onRefused();
    response.writeHead(status, { connection: 'close' }).end();
  }
}
