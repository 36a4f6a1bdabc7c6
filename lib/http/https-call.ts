import { type ClientRequest, type IncomingMessage } from 'node:http';
import { Agent, request, type RequestOptions } from 'node:https';
import { isIP } from 'node:net';
import { checkServerIdentity, connect, TLSSocket } from 'node:tls';
import { type Clock } from '../control/clock.ts';

/** Who is called, and as whom. */
export interface HttpsServer {
  /** A name or an address, without brackets. Its certificate has to be for it. */
  readonly host: string;
  readonly port: number;
  /** What signs its certificate, as PEM; null for what the system trusts. */
  readonly ca: string | null;
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

/** What came back, whatever its status is. */
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
  const { host, port, ca } = server;
  const agent = new Agent({ keepAlive: true, maxFreeSockets: 1, timeout: keptMs });
  agent.createConnection = () =>
    connect({
      ...{ host, port, rejectUnauthorized: true, ALPNProtocols: ['http/1.1'] },
      ...(ca === null ? {} : { ca }),
      // An address is no server name in TLS (RFC 6066); the certificate is held against it all the same.
      servername: isIP(host) === 0 ? host : '',
      checkServerIdentity: (_host, certificate) => checkServerIdentity(host, certificate),
    });
  return { server, agent };
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
    throw explain(call, error, question);
  } finally {
    cancel();
  }
}

function toOptions({ connections, method, path, body, signal }: HttpsCall): RequestOptions {
  const { agent, server } = connections;
  const { host, port, credentials } = server;
  return {
    ...{ host, port, method, path, signal, agent },
    headers: {
      accept: 'application/json',
      ...(credentials === null ? {} : { authorization: formatBasic(credentials) }),
      ...(body === null
        ? {}
        : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
    },
  };
}

function formatBasic({
  username,
  password,
}: {
  readonly username: string;
  readonly password: string;
}): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
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
    if (bytes > 0 || !isBrokenOff(error)) throw error;
  }
  return { status: response.statusCode ?? 0, text: Buffer.concat(parts).toString() };
}

/** Node says so of an answer that ends before its announced length. */
function isBrokenOff(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ECONNRESET';
}

function explain(
  { connections: { server } }: HttpsCall,
  error: unknown,
  { socket }: ClientRequest,
): HttpsError {
  if (error instanceof HttpsError) return error;
  const { code = '', message } = error as NodeJS.ErrnoException;
  const word = code === '' ? message : code;
  const isUntrusted = socket instanceof TLSSocket && Boolean(socket.authorizationError);
  if (!isUntrusted) return new HttpsError('unreachable', codeToWords.get(word) ?? word, { cause: error });
  const why =
    code === 'ERR_TLS_CERT_ALTNAME_INVALID'
      ? `its certificate is not for ${server.host}`
      : `its certificate does not come from the given CA (${word})`;
  return new HttpsError('untrusted', why, { cause: error });
}

const codeToWords = new Map([
  ['ECONNREFUSED', 'connection refused'],
  ['ECONNRESET', 'the connection broke'],
  ['ENOTFOUND', 'its name is unknown'],
]);
