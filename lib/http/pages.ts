import {
  type BoundedListener,
  type Allowance,
  type KeptServerOptions,
  KeptServer,
  Budget,
  createBoundedTlsServer,
  createBoundedServer,
} from './server.ts';
import { createSecureContext } from 'node:tls';
import { hostname } from 'node:os';
import { isIP } from 'node:net';
import { systemClock } from '../clock.ts';
import type { Server as TlsServer } from 'node:https';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { type Endpoint, formatEndpoint } from '../net.ts';
import type { Logger } from '../telemetry/log.ts';
import { toPrintableLine } from '../text.ts';

interface ProbePageSources {
  readonly metrics: { readonly contentType: string; readonly print: () => Promise<string> };
  /** Whether a restart could help it: 500, and why. */
  readonly health: Page;
  /** Whether it does its work: 503, and why not. */
  readonly readiness: Page;
}

/** `/metrics`, `/healthz` and `/readyz` of a program, by path. */
export function createProbePages(sources: ProbePageSources): ReadonlyMap<string, Page> {
  const { metrics, health, readiness } = sources;
  const print = async () => ({ status: 200, type: metrics.contentType, text: await metrics.print() });
  return new Map<string, Page>(
    Object.entries({ '/metrics': print, '/healthz': health, '/readyz': readiness }),
  );
}

/** Programs ask for these by whatever name they know. */
const probePaths = ['/metrics', '/healthz', '/readyz'];

/**
 * Whether another site may have led a browser here: by a name of its own, which it lets point to this host (DNS rebinding). No site has an
 * address, a name without a dot, or this host's own. Programs may use any name: an API server's proxy passes on the one by which it was asked
 * itself. They name no language, and a browser's script cannot take that header away.
 */
function isMisled({ headers }: IncomingMessage, path: string): boolean {
  if (headers['accept-language'] === undefined || probePaths.includes(path)) return false;
  const name = (headers.host ?? '').replace(/:\d*$/, '').toLowerCase();
  return name.includes('.') && isIP(name) === 0 && name !== hostname().toLowerCase();
}

/**
 * A server of HTTPS that answers one kind of question: a text that is posted to one path.
 *
 * Goal: whoever asks gets the answer in the time that it takes to read the question.
 * Tension: anybody may connect, send much, or nothing.
 * Compromise: connections, how many begin in a second, the length of a text, and how much is read in a second are limited. The certificate may change while it runs.
 */

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

interface PostServerOptions extends Omit<KeptServerOptions, 'endpoint'> {
  /** At all addresses of this host. 0 takes any that is free. */
  readonly port: number;
  readonly path: string;
  readonly maxBytes: number;
  /** Answers a text with JSON; null for one that it cannot read. */
  readonly answer: (text: string) => string | null;
  /** A question was refused: it could not be read, was too long, or one too many. So is a connection that was one too many. */
  readonly onRefused: () => void;
}

/** Answers from `start` to `stop`. */
export class PostServer extends KeptServer {
  readonly #options: PostServerOptions;
  readonly #bytes: Budget;
  #pair: KeyPair | null = null;
  #tls: TlsServer | null = null;
  #isEnding = false;

  constructor(options: PostServerOptions) {
    super({ ...options, endpoint: { port: options.port } });
    this.#options = options;
    this.#bytes = new Budget(ofBytes, options.clock);
  }

  /** Serves with this pair from now on. It must have one before its start, see `canServeWith`. Open connections stay as they are. */
  setPair(pair: KeyPair): void {
    this.#pair = pair;
    this.#tls?.setSecureContext({ cert: pair.certificate, key: pair.key });
  }

  /** From now on each connection ends with its next answer, so that clients connect elsewhere. */
  end(): void {
    this.#isEnding = true;
  }

  protected override create(): TlsServer {
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

  /** What still arrives is not read. */
  #refuse(response: ServerResponse, status: number): void {
    this.#options.onRefused();
    response.writeHead(status, { connection: 'close' }).end();
  }
}

/** The server of a program of Services: a port that it cannot have is logged, and tried again. */
export function createProbeServer(
  endpoint: Endpoint,
  pages: ReadonlyMap<string, Page>,
  logger: Logger,
): StatusServer {
  return new StatusServer({
    endpoint,
    pages,
    clock: systemClock,
    onProblem: ({ message, code }) => {
      logger.warn(message, { code });
    },
    onRecovered: () => {
      logger.info('vipnat now serves /metrics, /healthz and /readyz');
    },
  });
}

/** Answers one question, whatever it is. */
async function answer(
  pages: ReadonlyMap<string, Page>,
  ...[request, response, keep]: Parameters<BoundedListener>
) {
  const found = await findAnswer(pages, request);
  const isFull = found.stream !== undefined && request.method === 'GET' && !keep();
  const { status, type, text, headers, stream } = isFull ? toText(503, 'too many viewers') : found;
  response.writeHead(status, {
    ...{ 'content-type': type, 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' },
    ...(stream === undefined ? { 'content-length': Buffer.byteLength(text) } : {}),
    ...(status === 405 ? { allow: 'GET, HEAD' } : {}),
    ...headers,
  });
  // Node leaves out the text where HEAD asks.
  if (stream === undefined || request.method === 'HEAD') {
    response.end(text);
    return;
  }
  response.write(text);
  stream(response);
}

async function findAnswer(pages: ReadonlyMap<string, Page>, request: IncomingMessage): Promise<Answer> {
  const { method = '', url = '' } = request;
  if (method !== 'GET' && method !== 'HEAD') return toText(405, 'only GET and HEAD are allowed');
  const [path = '', query] = url.split('?');
  const page = pages.get(path);
  if (page === undefined) return toText(404, `no such page. The pages are ${[...pages.keys()].join(', ')}`);
  if (isMisled(request, path))
    return toText(
      421,
      `${path} is not at a name of another host. Ask by an address: http://ADDRESS:PORT${path}`,
    );
  try {
    return await page(new URLSearchParams(query));
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    return toText(500, `${path} failed: ${text.replaceAll(/\s+/g, ' ')}`);
  }
}

/** What a page answers. */
export interface Answer {
  readonly status: number;
  /** As in `content-type`. */
  readonly type: string;
  readonly text: string;
  /** Besides those that all answers have. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Gets the response after the text, and continues to write; left out for an answer that ends. */
  readonly stream?: (response: ServerResponse) => void;
}

/** Makes a page for each question, with the query of its path. One that rejects is answered with 500. */
export type Page = (query: URLSearchParams) => Answer | Promise<Answer>;

/** One line. */
export function toText(status: number, line: string): Answer {
  return { status, type: 'text/plain; charset=utf-8', text: `${toPrintableLine(line)}\n` };
}

/**
 * The HTTP server of `--listen`.
 *
 * Goal: every allowed client gets an answer, and no client can harm the agent.
 * Tension: whoever connects may be slow, many, or no HTTP at all.
 * Compromise: every connection has a limit in time, size and number.
 */

interface StatusServerOptions extends Pick<KeptServerOptions, 'clock' | 'onProblem'> {
  /** Port 0 takes any that is free. */
  readonly endpoint: Endpoint;
  readonly pages: ReadonlyMap<string, Page>;
  /** It listens after all. Not called when the first attempt succeeded. */
  readonly onRecovered: (endpoint: Endpoint) => void;
}

/** Serves pages from `start` to `stop`. Nothing that happens on its port ends or stops the agent. */
export class StatusServer extends KeptServer {
  readonly #options: StatusServerOptions;

  constructor(options: StatusServerOptions) {
    const { endpoint, pages, onRecovered } = options;
    super({
      ...options,
      title: `serve ${listPages(pages)} at ${formatEndpoint(endpoint)}`,
      remedy: '--listen takes another address, or off',
      onRecovered: () => {
        onRecovered(endpoint);
      },
    });
    this.#options = options;
  }

  /** Where it listens: with the port that it got; null while it does not. */
  get endpoint(): Endpoint | null {
    const { port } = this;
    return port === null ? null : { ...this.#options.endpoint, port };
  }

  protected override create(): Server {
    return createBoundedServer((...given) => {
      answer(this.#options.pages, ...given).catch(() => given[1].destroy());
    });
  }
}

function listPages(pages: ReadonlyMap<string, Page>): string {
  const paths = [...pages.keys()];
  const last = paths.pop() ?? '';
  return paths.length === 0 ? last : `${paths.join(', ')} and ${last}`;
}
