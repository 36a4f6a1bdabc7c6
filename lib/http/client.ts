import { Agent, request, type RequestOptions, get as httpsGet } from 'node:https';
import { type Clock, scheduleLimit, scheduleRunningLimit, systemClock } from '../clock.ts';
import { connect, checkServerIdentity, type ConnectionOptions, TLSSocket } from 'node:tls';
import { isIP, connect as connectTcp } from 'node:net';
import { type IncomingMessage, get } from 'node:http';
import { type Endpoint, type Family, familyToElsewhere } from '../net.ts';
import { createSocket } from 'node:dgram';
import { addAbortSignal } from 'node:stream';

interface TlsServer {
  /** A name or an address, without brackets. Its certificate has to be for it. */
  readonly host: string;
  readonly port: number;
  /** What signs its certificate, as PEM; null for what the system trusts. */
  readonly ca: string | null;
}

/** Who is called, and as whom. */
export interface HttpsServer extends TlsServer {
  /** For HTTP's basic authentication. */
  readonly credentials: { readonly username: string; readonly password: string } | null;
}

/** Connections to one server: one is kept for a moment, for the next question. See `openHttps`. */
export interface HttpsConnections {
  readonly server: HttpsServer;
  readonly agent: Agent;
}

/** One question. */
export interface HttpsCall {
  readonly connections: HttpsConnections;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** With its query. */
  readonly path: string;
  /** JSON; null for none. */
  readonly body: string | null;
  /** From now until the answer has ended. */
  readonly limitMs: number;
  /** A longer answer is not read to its end. */
  readonly maxBytes: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** What came back over HTTP, whatever its status is. */
export interface HttpsAnswer {
  readonly status: number;
  readonly text: string;
}

/** Why there is no answer. The message is a phrase, and has nothing of the question in it. */
export class HttpsError extends Error {
  override readonly name = 'HttpsError';
  readonly reason: 'unreachable' | 'untrusted' | 'too-long';

  constructor(reason: HttpsError['reason'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** Servers keep an idle connection for 5 s and longer: one that is kept for less is not closed right when the next question goes out. */
const keptMs = 2000;

/**
 * Opens nothing yet. The certificate is verified for each connection. It is so here, and not by an option of each question: Node keeps no connection
 * for questions that verify by a function of their own.
 */
export function openHttps(server: HttpsServer): HttpsConnections {
  const agent = new Agent({ keepAlive: true, maxFreeSockets: 1, timeout: keptMs });
  agent.createConnection = () => connect({ ...toTlsOptions(server), ALPNProtocols: ['http/1.1'] });
  return { server, agent };
}

function toTlsOptions({ host, port, ca }: TlsServer): ConnectionOptions {
  return {
    // Said, or a variable of the environment would say otherwise.
    ...{ host, port, rejectUnauthorized: true },
    ...(ca === null ? {} : { ca }),
    // An address is no server name in TLS (RFC 6066); the certificate is held against it all the same.
    servername: isIP(host) === 0 ? host : '',
    checkServerIdentity: (_host, certificate) => checkServerIdentity(host, certificate),
  };
}

/**
 * Asks a server, over the connection of the question before where that is still open. An answer that breaks off before its first byte is an empty
 * one: some devices announce a length and send nothing.
 * @throws HttpsError; what the signal was ended with.
 */
export async function callHttps(call: HttpsCall): Promise<HttpsAnswer> {
  call.signal.throwIfAborted();
  const question = request(toOptions(call));
  let cancel: () => void = () => undefined;
  try {
    return await new Promise<HttpsAnswer>((resolve, reject) => {
      cancel = call.clock.schedule(call.limitMs, () => {
        reject(new HttpsError('unreachable', `no answer within ${call.limitMs / 1000} s`));
      });
      question.on('error', reject).on('response', (response) => {
        readAnswer(response, call.maxBytes).then(resolve, reject);
      });
      question.end(call.body ?? undefined);
    });
  } catch (error) {
    question.destroy();
    call.signal.throwIfAborted();
    throw explain(call, error, question.socket);
  } finally {
    cancel();
  }
}

function toOptions({ connections, method, path, body, signal }: HttpsCall): RequestOptions {
  const { agent, server } = connections;
  const { host, port, credentials } = server;
  return {
    ...{ host, port, method, path, signal, agent },
    ...(credentials === null ? {} : { auth: `${credentials.username}:${credentials.password}` }),
    headers: {
      accept: 'application/json',
      ...(body === null
        ? {}
        : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
    },
  };
}

async function readAnswer(response: IncomingMessage, maxBytes: number): Promise<HttpsAnswer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const part of response as AsyncIterable<Buffer>) {
      bytes += part.length;
      if (bytes > maxBytes) throw new HttpsError('too-long', `its answer is longer than ${maxBytes} bytes`);
      parts.push(part);
    }
  } catch (error) {
    // Node says so of an answer that ends before its announced length.
    const isBrokenOff = (error as NodeJS.ErrnoException).code === 'ECONNRESET';
    if (bytes > 0 || !isBrokenOff) throw error;
  }
  return { status: response.statusCode ?? 0, text: Buffer.concat(parts).toString() };
}

function explain({ connections }: HttpsCall, error: unknown, socket: unknown): HttpsError {
  if (error instanceof HttpsError) return error;
  const { code = '', message } = error as NodeJS.ErrnoException;
  const errorText = code === '' ? message : code;
  const isUntrusted = socket instanceof TLSSocket && Boolean(socket.authorizationError);
  if (!isUntrusted)
    return new HttpsError('unreachable', codeToText.get(errorText) ?? errorText, { cause: error });
  const why =
    code === 'ERR_TLS_CERT_ALTNAME_INVALID'
      ? `its certificate is not for ${connections.server.host}`
      : `its certificate does not come from the given CA (${errorText})`;
  return new HttpsError('untrusted', why, { cause: error });
}

const codeToText = new Map([
  ['ECONNREFUSED', 'connection refused'],
  ['ECONNRESET', 'the connection broke'],
  ['ENOTFOUND', 'its name is unknown'],
]);

/** A conversation of one question and one answer, over a connection of its own. */
interface TlsExchange extends TlsServer, Pick<HttpsCall, 'limitMs' | 'maxBytes' | 'clock' | 'signal'> {
  readonly text: string;
  /** From now until there is a connection: the other side's kernel makes it, however busy its programs are. */
  readonly connectLimitMs: number;
}

/**
 * Sends a text, and answers with all that comes until the other side ends the connection. The certificate is always verified. After an
 * error the other side may have any beginning of the text.
 * @throws an Error, with Node's code where it has one; what the signal was ended with.
 */
export async function exchangeText(exchange: TlsExchange): Promise<string> {
  const { signal, clock, limitMs, connectLimitMs } = exchange;
  signal.throwIfAborted();
  const socket = addAbortSignal(signal, connect(toTlsOptions(exchange)));
  const cancelConnect = scheduleLimit(clock, connectLimitMs, () => {
    if (socket.connecting) socket.destroy(new Error(`no connection within ${connectLimitMs / 1000} s`));
  });
  const cancel = scheduleLimit(clock, limitMs, () => {
    socket.destroy(new Error(`no answer within ${limitMs / 1000} s`));
  });
  try {
    return await converse(socket, exchange);
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    cancel();
    cancelConnect();
    socket.destroy();
  }
}

async function converse(socket: TLSSocket, { text, maxBytes }: TlsExchange): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  await new Promise<void>((resolve, reject) => {
    socket
      .on('error', reject)
      .on('secureConnect', () => socket.write(text))
      .on('data', (part: Buffer) => {
        parts.push(part);
        bytes += part.length;
        if (bytes > maxBytes) reject(new Error(`its answer is longer than ${maxBytes} bytes`));
      })
      .on('end', () => {
        // Before the handshake is over, Node makes an error of it.
        if (socket.authorized) resolve();
      })
      .on('close', resolve);
  });
  return Buffer.concat(parts).toString();
}

/** What one connect has shown; the reason is a phrase for people. */
export type ConnectResult =
  | { readonly kind: 'open' }
  | { readonly kind: 'refused' | 'doubtful' | 'unreachable' | 'silent'; readonly reason: string };

/** What the connects to one host have shown. Times are of the Clock, and are when connects were begun. */
export interface ConnectHistory {
  /** How the last connect ended; `doubtful` is a refusal while an older connection is up. */
  readonly connect: 'unknown' | ConnectResult['kind'];
  /** What it was in words, for the reason. */
  readonly connectReason: string;
  /** When the last connect was begun that the peer answered, whatever the answer. */
  readonly reachedAt: number;
  /** Connects in a row that it did not answer. */
  readonly consecutiveTimeouts: number;
  /** When the first connect was begun of those in a row that were not simply answered. */
  readonly troubleSince: number;
}

/** Nothing seen yet. */
export const emptyConnects: ConnectHistory = {
  connect: 'unknown',
  connectReason: '',
  reachedAt: -Infinity,
  consecutiveTimeouts: 0,
  troubleSince: 0,
};

/** A lost packet is nothing, and two in a row are rare: with 1 % of loss one pair of connects in 2,500. */
export const timeoutsToFailure = 2;

/** Adds what a connect has shown to what was known. Pure. */
export function addConnect<T extends ConnectHistory>(history: T, result: ConnectResult, askedAt: number): T {
  const { kind } = result;
  const isAnswered = kind !== 'unreachable' && kind !== 'silent';
  const hadTrouble = history.connect !== 'open' && history.connect !== 'unknown';
  return {
    ...history,
    connect: kind,
    connectReason: result.kind === 'open' ? '' : result.reason,
    reachedAt: isAnswered ? askedAt : history.reachedAt,
    consecutiveTimeouts: isAnswered ? 0 : history.consecutiveTimeouts + 1,
    troubleSince: hadTrouble ? history.troubleSince : askedAt,
  };
}

/** Whether the last connect was answered for certain. Pure. */
export function isAnswered({ connect }: Pick<ConnectHistory, 'connect'>): boolean {
  return connect === 'open' || connect === 'refused';
}

/** Whether it confirms that the network works since a time: asked no earlier, and answered. Pure. */
export function isCorroborating(history: ConnectHistory, since: number): boolean {
  return isAnswered(history) && history.reachedAt >= since;
}

/** How one TCP connect ended. */
export type ConnectOutcome =
  /** The peer's kernel answered: load on the peer does not slow that. */
  | { readonly kind: 'open' }
  /** A reset: the host is there and nobody listens. */
  | { readonly kind: 'refused' }
  /** The path there failed immediately; `code` is the system's error code, as EHOSTUNREACH. */
  | { readonly kind: 'unreachable'; readonly code: string }
  /** No answer within the limit. */
  | { readonly kind: 'silent' }
  /** This process could not even try, as without a free file descriptor: it says nothing about the peer. */
  | { readonly kind: 'untried'; readonly code: string };

interface ConnectManner {
  readonly limitMs: number;
  /**
   * How one that is open ends. `close` is in order: then the port waits for a minute on this host. After `reset` nothing is left, but some
   * servers log it.
   */
  readonly end: 'close' | 'reset';
  /** The source port; any that is free when left out. One that is taken, or denied, ends as `untried`. */
  readonly localPort?: number;
}

/** Connects once, sends nothing, and ends the connection. Never rejects; answers after the limit at the latest. */
export function connectOnce(clock: Clock, to: Endpoint, manner: ConnectManner): Promise<ConnectOutcome> {
  const { address: host, port } = to;
  const { limitMs, end, localPort } = manner;
  return new Promise((resolve) => {
    const socket = connectTcp({ host, port, ...(localPort === undefined ? {} : { localPort }) });
    const finish = (outcome: ConnectOutcome) => {
      cancel();
      if (end === 'reset' && outcome.kind === 'open') socket.resetAndDestroy();
      else socket.destroy();
      resolve(outcome);
    };
    const cancel = scheduleLimit(clock, limitMs, () => {
      finish({ kind: 'silent' });
    });
    socket.on('error', ({ code = 'unknown', syscall }: NodeJS.ErrnoException) => {
      // Of a connect, EACCES is a router's word: ICMPv6, "administratively prohibited".
      finish(syscall === 'bind' ? { kind: 'untried', code } : toOutcome(code));
    });
    socket.on('connect', () => {
      finish({ kind: 'open' });
    });
  });
}

/** What this host lacks, not the peer. */
const ownShortages = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'ENOBUFS', 'EADDRNOTAVAIL', 'EAGAIN']);

function toOutcome(code: string): ConnectOutcome {
  if (code === 'ECONNREFUSED' || code === 'ECONNRESET') return { kind: 'refused' };
  if (code === 'ETIMEDOUT') return { kind: 'silent' };
  return ownShortages.has(code) ? { kind: 'untried', code } : { kind: 'unreachable', code };
}

/**
 * Asks a program on this host by HTTP, over a connection of its own, by TCP or by a Unix socket; null when nobody answers in time, or with more.
 * Never rejects.
 */
export function askLoopback(
  url: string,
  limits: { readonly limitMs: number; readonly maxLength: number; readonly socketPath?: string },
): Promise<HttpsAnswer | null> {
  const { limitMs, maxLength, socketPath } = limits;
  return new Promise((resolve) => {
    const giveUp = () => {
      resolve(null);
    };
    // No pooled connection: it could be to a program that is gone.
    const question = get(url, { agent: false, socketPath }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
        if (text.length > maxLength) question.destroy();
      });
      response.on('end', () => {
        resolve({ status: response.statusCode ?? 0, text });
      });
      response.on('error', giveUp).on('close', giveUp);
    });
    const cancelLimit = scheduleRunningLimit(systemClock, limitMs, () => question.destroy());
    question.on('error', giveUp).on('close', cancelLimit);
  });
}

/** How an apiserver shows itself to whoever connects. */
export interface Serving {
  /** The names and addresses of its certificate as Node prints them: `DNS:kubernetes, IP Address:10.96.0.1`. */
  readonly alternativeNames: string;
  readonly validTo: Date;
  /** How far its clock is before this host's in milliseconds, to about half a second; null when its answer has no date. */
  readonly clockAheadMs: number | null;
}

/** The Date header has whole seconds, cut off (RFC 9110, section 5.6.7). */
const halfSecondMs = 500;

/**
 * Connects once, to inspect and not to trust: nothing secret is sent, and no certificate is verified. Null when there was
 * no answer within the limit. Never rejects.
 */
export function askServing(endpoint: Endpoint, clock: Clock, limitMs: number): Promise<Serving | null> {
  return new Promise((resolve) => {
    const asked = clock.date().getTime();
    const request = httpsGet(
      { ...toReadyzRequest(endpoint), agent: false, rejectUnauthorized: false },
      ({ socket, headers }) => {
        const middle = (asked + clock.date().getTime()) / 2;
        const dateMs = Date.parse(headers.date ?? '');
        if (!(socket instanceof TLSSocket)) throw new TypeError('HTTPS came without TLS');
        const { subjectaltname, valid_to } = socket.getPeerCertificate();
        cancel();
        request.destroy();
        resolve({
          alternativeNames: subjectaltname ?? '',
          validTo: new Date(valid_to),
          clockAheadMs: Number.isNaN(dateMs) ? null : dateMs + halfSecondMs - middle,
        });
      },
    );
    request.on('error', () => {
      cancel();
      resolve(null);
    });
    const cancel = clock.schedule(limitMs, () => request.destroy(new Error('no answer in time')));
  });
}

/** What an apiserver is asked for: whether it is ready, not whether it lives. */
export const readyzPath = '/readyz';

/** The request that asks it. Pure. */
export function toReadyzRequest({ address, port }: Endpoint): Pick<RequestOptions, 'host' | 'port' | 'path'> {
  return { host: address, port, path: readyzPath };
}

/** Any port will do. */
const discardPort = 9;

/**
 * The address from which this host sends to where its default route leads; null without such a route. The kernel chooses it, and nothing is
 * sent. Never rejects.
 */
export function findSourceAddress(family: Family): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = createSocket(family === 'ipv6' ? 'udp6' : 'udp4');
    const end = (address: string | null) => {
      socket.close();
      resolve(address);
    };
    socket.on('error', () => {
      end(null);
    });
    socket.connect(discardPort, familyToElsewhere[family], () => {
      end(socket.address().address);
    });
  });
}
