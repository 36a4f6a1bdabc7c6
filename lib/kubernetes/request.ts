import { lookup } from 'node:dns';
import { type IncomingMessage } from 'node:http';
import { request, type RequestOptions } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { checkServerIdentity, TLSSocket } from 'node:tls';
import * as z from 'zod/mini';
import { VipnatError } from '../text/errors.ts';
import { type Cancel, type Clock } from '../control/clock.ts';
import { type ApiAccess } from './access.ts';
import { LateError, NonsenseError, quoteForeign, SilenceError, VersionGoneError } from './errors.ts';
import { type ApiServer, formatServer } from './servers.ts';

/** One question to one apiserver. */
export interface ApiCall {
  /** What it is for, to begin a sentence with: `listing the EndpointSlices`. */
  readonly title: string;
  readonly access: ApiAccess;
  readonly server: ApiServer;
  /** With its query. */
  readonly path: string;
  /** How long until the answer begins, until each next part of it comes (for ever when left out), and until it has ended. */
  readonly limits: { readonly beginMs: number; readonly silenceMs?: number; readonly endMs: number };
  /** Addresses that no connection may go to: a name can stand for one. */
  readonly forbidden: ReadonlySet<string>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** What to send; without it the question is a GET. */
  readonly message?: ApiMessage;
  /** What a person has to do where it is forbidden, as a phrase; a general one when left out. */
  readonly remedy?: string;
  /** What a person has to do where there is nothing at this path, as a phrase; nothing is said when left out. */
  readonly absence?: string;
  /** The statuses whose answers the receiver takes; 200 alone when left out. */
  readonly accepted?: ReadonlySet<number>;
}

/** An object to create, what to change of one, or how one is deleted. */
export interface ApiMessage {
  readonly method: 'POST' | 'PATCH' | 'DELETE';
  readonly contentType: string;
  readonly text: string;
}

/**
 * A host that goes without a word is noticed after this and ten more seconds (libuv asks ten times, once a second). A process that is
 * frozen is not: its kernel answers.
 */
const keepAliveMs = 15_000;

/** A Status says in a sentence what is wrong. */
const maxStatusLength = 16_384;

/** Who takes the answer, when its status is accepted. What these throw ends the question. */
export interface Receiver<T> {
  readonly onBegin?: (statusCode: number) => void;
  readonly onText: (text: string) => void;
  /** Told at the end of a whole answer; what it returns is what the question comes to. */
  readonly onEnd: () => T;
}

/**
 * Sends a question and hands on the answer's body as it comes. Ends with the answer.
 * @throws VipnatError API_UNREACHABLE, API_UNTRUSTED, API_FORBIDDEN or API_ANSWER_UNEXPECTED; VersionGoneError for 410; SilenceError by
 * `silenceMs`.
 */
export async function callApi<T>(call: ApiCall, receiver: Receiver<T>): Promise<T> {
  const { clock, limits } = call;
  const question = (call.access.request ?? request)(toOptions(call));
  question.setSocketKeepAlive(true, keepAliveMs);
  let cancelEnd: Cancel = () => undefined;
  let cancelNext: Cancel = () => undefined;
  try {
    return await new Promise<T>((resolve, reject) => {
      const limit = (limitMs: number) =>
        clock.schedule(limitMs, () => {
          reject(unreachable(call, `no answer within ${limitMs / 1000} s`, new LateError()));
        });
      const noteText = () => {
        cancelNext();
        if (limits.silenceMs === undefined || question.destroyed) return;
        cancelNext = clock.schedule(limits.silenceMs, () => {
          reject(new SilenceError());
        });
      };
      cancelNext = limit(limits.beginMs);
      cancelEnd = limit(limits.endMs);
      question.on('error', reject).on('response', (response) => {
        noteText();
        const onText = (text: string) => {
          noteText();
          receiver.onText(text);
        };
        readAnswer(call, response, { ...receiver, onText }).then(resolve, reject);
      });
      question.end(call.message?.text);
    });
  } catch (error) {
    throw explain(call, error, question.socket);
  } finally {
    cancelNext();
    cancelEnd();
    question.destroy();
  }
}

/** The API notes it at each field that vipnat writes: `metadata.managedFields`. */
export const fieldManager = 'vipnat';

function toOptions({ access, server, path, forbidden, signal, message }: ApiCall): RequestOptions {
  const { serverName } = access;
  const sent = message && {
    'content-type': message.contentType,
    'content-length': Buffer.byteLength(message.text),
  };
  return {
    ...access.tls,
    host: server.host,
    port: server.port,
    path,
    method: message?.method ?? 'GET',
    headers: { 'user-agent': fieldManager, ...access.headers, accept: 'application/json', ...sent },
    agent: false,
    signal,
    lookup: lookUpExcept(forbidden),
    // An address is no server name in TLS (RFC 6066); the certificate is held against it all the same.
    ...(isIP(serverName) === 0 ? { servername: serverName } : { servername: '' }),
    checkServerIdentity: (_host, certificate) => checkServerIdentity(serverName, certificate),
  };
}

function lookUpExcept(forbidden: ReadonlySet<string>): LookupFunction {
  return (name, options, callback) => {
    lookup(name, { ...options, all: true }, (error, addresses) => {
      if (error !== null) {
        callback(error, []);
        return;
      }
      const allowed = addresses.filter(({ address }) => !forbidden.has(address));
      const [first] = allowed;
      const isVip = Object.assign(new Error('virtual IP'), { code: 'it is a virtual IP' });
      if (first === undefined) callback(isVip, []);
      else if (options.all === true) callback(null, allowed);
      else callback(null, first.address, first.family);
    });
  };
}

const onlyOk: ReadonlySet<number> = new Set([200]);

async function readAnswer<T>(call: ApiCall, response: IncomingMessage, receiver: Receiver<T>): Promise<T> {
  response.setEncoding('utf8');
  const { statusCode = 0 } = response;
  const { accepted = onlyOk } = call;
  if (!accepted.has(statusCode)) throw refuse(call, statusCode, await readStatus(response));
  receiver.onBegin?.(statusCode);
  for await (const text of response) receiver.onText(String(text));
  return receiver.onEnd();
}

async function readStatus(response: IncomingMessage): Promise<string> {
  let body = '';
  for await (const text of response) {
    body += String(text);
    if (body.length > maxStatusLength) break;
  }
  return describeStatus(body);
}

const status = z.object({ message: z.string() });

/** `: endpointslices is forbidden …`, or nothing where the body says nothing. */
export function describeStatus(body: string): string {
  try {
    const { message } = status.parse(JSON.parse(body));
    return `: ${quoteForeign(message)}`;
  } catch {
    return '';
  }
}

function refuse(call: ApiCall, statusCode: number, words: string): Error {
  if (statusCode === 410) return new VersionGoneError();
  const what = `${nameCall(call)} is answered with ${statusCode}${words}`;
  if (statusCode === 401) {
    return new VipnatError(
      'API_FORBIDDEN',
      `${what}; give credentials that are still valid (${call.access.origin})`,
    );
  }
  if (statusCode === 403) {
    const remedy = call.remedy ?? 'let a role allow it';
    return new VipnatError('API_FORBIDDEN', `${what}; ${remedy}`);
  }
  if (statusCode === 404 && call.absence !== undefined) return unexpected(`${what}; ${call.absence}`);
  return unexpected(what);
}

/** What a failure was, in words and with its code. */
function explain(call: ApiCall, error: unknown, socket: unknown): unknown {
  const isKnown = [VipnatError, VersionGoneError, SilenceError].some((known) => error instanceof known);
  if (isKnown) return error;
  if (error instanceof NonsenseError) return unexpected(`${nameCall(call)} failed: ${error.message}`, error);
  const { code = '', message } = error as NodeJS.ErrnoException;
  const word = code === '' ? message : code;
  const isUntrusted = socket instanceof TLSSocket && Boolean(socket.authorizationError);
  return isUntrusted ? distrust(call, word, error) : unreachable(call, codeToWords.get(word) ?? word, error);
}

const codeToWords = new Map([
  ['ABORT_ERR', 'it was left'],
  ['ECONNREFUSED', 'connection refused'],
  ['ECONNRESET', 'the connection broke'],
]);

function distrust(call: ApiCall, code: string, cause: unknown): VipnatError {
  const { origin, serverName } = call.access;
  const why =
    code === 'ERR_TLS_CERT_ALTNAME_INVALID'
      ? `its certificate is not for ${serverName}`
      : `its certificate does not come from the CA of ${origin} (${code}): another cluster's?`;
  return new VipnatError('API_UNTRUSTED', `${nameCall(call)} failed: ${why}`, { cause });
}

function unreachable(call: ApiCall, why: string, cause?: unknown): VipnatError {
  return new VipnatError('API_UNREACHABLE', `${nameCall(call)} failed: ${why}`, { cause });
}

function unexpected(what: string, cause?: unknown): VipnatError {
  return new VipnatError('API_ANSWER_UNEXPECTED', what, { cause });
}

function nameCall({ title, server }: ApiCall): string {
  return `${title} at ${formatServer(server)}`;
}
