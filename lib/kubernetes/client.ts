import { type Connection, formatServer } from './route.ts';
import type { Clock, Cancel } from '../clock.ts';
import { request, type RequestOptions } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { checkServerIdentity, TLSSocket } from 'node:tls';
import { lookup } from 'node:dns';
import type { ClientRequest, IncomingMessage } from 'node:http';
import * as z from 'zod/mini';
import { VipnatError, type ErrorCode } from '../errors.ts';
import { readJson } from '../text.ts';

export { readJson };

interface ApiReply {
  readonly status: number;
  readonly text: string;
  /** What was asked, and where, to begin a sentence with. */
  readonly what: string;
  /** What was answered, as a sentence that can continue. */
  readonly describe: () => string;
}

/** One question that has to be answered within a time. */
type ShortCall = Omit<ApiCall, 'limits'> & { readonly limitMs: number };

/**
 * One question with its whole answer, if that has one of the accepted statuses and no more characters than it may.
 * @throws VipnatError as `callApi`
 */
export async function exchange({ limitMs, ...rest }: ShortCall, maxLength: number): Promise<ApiReply> {
  const call = { ...rest, limits: { beginMs: limitMs, endMs: limitMs } };
  const what = nameCall(call);
  let status = 0;
  let text = '';
  return await callApi(call, {
    onBegin: (statusCode) => (status = statusCode),
    onText: (part) => {
      text += part;
      if (text.length > maxLength) throw new NonsenseError('the answer is too long');
    },
    onEnd: () => ({ status, text, what, describe: () => describeAnswer(what, status, describeStatus(text)) }),
  });
}

/** One question to one apiserver. */
export interface ApiCall extends Connection {
  /** What it is for, to begin a sentence with: `listing the EndpointSlices`. */
  readonly title: string;
  /** With its query. */
  readonly path: string;
  /** How long until the answer begins, until each next part of it comes (for ever when left out), and until it has ended. */
  readonly limits: { readonly beginMs: number; readonly idleMs?: number; readonly endMs: number };
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

/** Whom to ask, and what each question of a kind shares with the others. */
export type Asking = Connection & Pick<ApiCall, 'clock' | 'forbidden' | 'signal'>;

/** An object to create, what to change of one, or how one is deleted. */
export interface ApiMessage {
  readonly method: 'POST' | 'PATCH' | 'DELETE';
  readonly contentType: string;
  readonly text: string;
}

/**
 * A host that goes without closing its connections is noticed after this and ten more seconds (libuv asks ten times, once a second). A process that is
 * frozen is not: its kernel answers.
 */
const keepAliveMs = 15_000;

/** A Status says in a sentence what is wrong. */
const maxStatusLength = 16_384;

/** Who takes the answer, when its status is accepted. What these throw ends the question. */
interface Receiver<T> {
  readonly onBegin?: (statusCode: number) => void;
  readonly onText: (text: string) => void;
  /** Called at the end of a whole answer; what it returns is what the question comes to. */
  readonly onEnd: () => T;
}

/**
 * Sends a question and hands on the answer's body as it comes. Ends with the answer.
 * @throws VipnatError API_UNREACHABLE, API_UNTRUSTED, API_FORBIDDEN, API_ANSWER_UNEXPECTED or API_CREDENTIALS_INVALID;
 * VersionGoneError for 410; IdleError by `idleMs`.
 */
export async function callApi<T>(call: ApiCall, receiver: Receiver<T>): Promise<T> {
  const { clock, limits } = call;
  const question = ask(call);
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
        if (limits.idleMs === undefined || question.destroyed) return;
        cancelNext = clock.schedule(limits.idleMs, () => {
          reject(new IdleError());
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

function ask(call: ApiCall): ClientRequest {
  const { access } = call;
  try {
    return (access.request ?? request)(toOptions(call));
  } catch (cause) {
    // Node's words say which header, or what of a certificate or key, and not its text.
    const why = `the credentials of ${access.origin} cannot be used: ${quoteForeign((cause as Error).message)}`;
    throw new VipnatError('API_CREDENTIALS_INVALID', why, { cause });
  }
}

/** The API notes it at each field that vipnat writes: `metadata.managedFields`. */
export const fieldManager = 'vipnat';

function toOptions({ access, server, path, forbidden, signal, message }: ApiCall): RequestOptions {
  const { serverName, prefix = '' } = access;
  const sent = message && {
    'content-type': message.contentType,
    'content-length': Buffer.byteLength(message.text),
  };
  return {
    ...access.tls,
    host: server.host,
    port: server.port,
    path: server.host === access.host ? `${prefix}${path}` : path,
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

async function readAnswer<T>(call: ApiCall, response: IncomingMessage, receiver: Receiver<T>): Promise<T> {
  response.setEncoding('utf8');
  const { statusCode = 0 } = response;
  const { accepted = new Set([200]) } = call;
  if (statusCode === 401) call.access.forget?.();
  if (!accepted.has(statusCode)) throw refuse(call, response, await readStatus(response));
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
  const { data } = status.safeParse(readJson(body));
  return data === undefined ? '' : `: ${quoteForeign(data.message)}`;
}

function refuse(call: ApiCall, { statusCode = 0, headers }: IncomingMessage, detail: string): Error {
  if (statusCode === 410) return new VersionGoneError();
  const what = describeAnswer(nameCall(call), statusCode, detail);
  const { access, absence, remedy = 'let a role allow it' } = call;
  if (statusCode === 401 || statusCode === 403) {
    const next = statusCode === 403 ? remedy : `give credentials that are still valid (${access.origin})`;
    return new VipnatError('API_FORBIDDEN', `${what}; ${next}`);
  }
  if (statusCode === 404 && absence !== undefined) return unexpected(`${what}; ${absence}`);
  return unexpected(what, toBusy(statusCode, headers['retry-after']));
}

/** What a failure was, in words and with its code. */
function explain(call: ApiCall, error: unknown, socket: unknown): unknown {
  const isKnown = [VipnatError, VersionGoneError, IdleError].some((known) => error instanceof known);
  if (isKnown) return error;
  if (error instanceof NonsenseError || error instanceof BusyError)
    return unexpected(`${nameCall(call)} failed: ${error.message}`, error);
  const { code = '', message } = error as NodeJS.ErrnoException;
  const errorText = code === '' ? message : code;
  const isUntrusted = socket instanceof TLSSocket && Boolean(socket.authorizationError);
  return isUntrusted
    ? distrust(call, errorText, error)
    : unreachable(call, codeToText.get(errorText) ?? errorText, error);
}

const codeToText = new Map([
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

function describeAnswer(what: string, status: number, detail: string): string {
  return `${what} is answered with ${status}${detail}`;
}

function nameCall({ title, server }: Pick<ApiCall, 'title' | 'server'>): string {
  return `${title} at ${formatServer(server)}`;
}

/** The answer has not ended, and no part of it comes: of a frozen server, or one that has nothing to say. */
export class IdleError extends Error {}

/** The version that a watch was to continue from is too old (410): everything has to be listed again. */
export class VersionGoneError extends Error {}

/** The server cannot answer now (429 or 5xx), which says nothing about what was asked, nor about a watch's version. */
export class BusyError extends Error {
  /** How long the server wants to be left alone: at most a minute, 0 if it does not say. */
  readonly retryAfterMs: number;

  constructor(message: string, seconds: number) {
    super(message);
    this.retryAfterMs = Math.min(Math.max(seconds, 0), 60) * 1000;
  }
}

/** Undefined for any other status. `retryAfter` is the header, whose dates count as nothing. */
export function toBusy(status: number, retryAfter = '', message = ''): BusyError | undefined {
  const seconds = /^\d+$/.test(retryAfter) ? Number(retryAfter) : 0;
  return status === 429 || status >= 500 ? new BusyError(message, seconds) : undefined;
}

/** What was answered is not what was asked for; the message is a phrase for after the question's name. */
export class NonsenseError extends Error {}

/** An answer is longer than it may be. */
export class TooLongError extends NonsenseError {}

/** An answer did not begin, or did not end, in time. */
export class LateError extends Error {}

/** Foreign words as they are safe in a line: one line, cut short. */
export function quoteForeign(text: string): string {
  const line = text.replaceAll(/[^\x20-\x7e]+/g, ' ').trim();
  return line.length > 160 ? `${line.slice(0, 160)}…` : line;
}

/** An answer says more than none does, and a refusal more than a fault. */
const urgent: readonly ErrorCode[] = ['API_FORBIDDEN', 'API_ANSWER_UNEXPECTED', 'API_UNTRUSTED'];

/** Of two problems of one round, the one that says more; the earlier one where both say as much. */
export function chooseSpecific(before: VipnatError | null, problem: VipnatError): VipnatError {
  const rank = ({ code }: VipnatError) => (urgent.includes(code) ? urgent.indexOf(code) : urgent.length);
  return before !== null && rank(before) <= rank(problem) ? before : problem;
}

/** An object that does not match its schema: it is left out, and stops nothing else. */
export interface Unreadable {
  /** `NAMESPACE/NAME`, or the name alone of an object without a namespace. */
  readonly key: string;
  readonly version: string;
  /** The field that does not match: `status.conditions.0.status`. */
  readonly why: string;
}

/** That an object cannot be read, as a line for people. */
export function describeUnreadable(kind: string, { key, why }: Unreadable): string {
  const what = why === '' ? 'it' : `its field ${why}`;
  return `vipnat cannot read the ${kind} ${key}: ${what} is not as the Kubernetes API defines it. vipnat leaves out this change, and follows all other objects`;
}

/** Of the metadata: DNS labels with dots, as Kubernetes has the names of objects. */
export const name = z.string().check(z.regex(/^[a-z0-9][a-z0-9.-]{0,252}$/));

/** Of the metadata: opaque to clients, a number in practice. */
export const objectVersion = z.string().check(z.regex(/^[\w-]{1,64}$/));

/** What every object of the API has. The namespace is there where objects of several are asked for. */
export interface ApiObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly resourceVersion: string;
  };
}

/** What identifies an object in its kind: Kubernetes' NamespacedName. */
export interface NamespacedName {
  readonly namespace: string;
  readonly name: string;
}

/** An object's key in its kind: `NAMESPACE/NAME`, or the name alone where the namespace is not read. */
export function toKey({ metadata: { namespace, name: own } }: ApiObject): string {
  return namespace === undefined ? own : `${namespace}/${own}`;
}

const metadata = z.object({ name, resourceVersion: objectVersion });

const slice = z.object({
  metadata,
  addressType: z.string(),
  endpoints: z.nullish(
    z.array(
      z.object({
        addresses: z.array(z.string()),
        conditions: z.nullish(z.object({ ready: z.nullish(z.boolean()) })),
      }),
    ),
  ),
  ports: z.nullish(
    z.array(
      z.object({ name: z.nullish(z.string()), port: z.nullish(z.number()), protocol: z.nullish(z.string()) }),
    ),
  ),
});

const service = z.object({
  metadata,
  spec: z.object({
    clusterIP: z.nullish(z.string()),
    clusterIPs: z.nullish(z.array(z.string())),
    sessionAffinity: z.nullish(z.string()),
    sessionAffinityConfig: z.nullish(
      z.object({ clientIP: z.nullish(z.object({ timeoutSeconds: z.nullish(z.number()) })) }),
    ),
  }),
});

/** An EndpointSlice of discovery.k8s.io/v1, as far as it is of use. */
export type EndpointSlice = z.output<typeof slice>;

/** A Service of v1, as far as it is of use. */
export type Service = z.output<typeof service>;

/** A kind of objects, and which of them are asked for. Nothing of an answer is trusted: the schema has what is used of it. */
export interface Resource<T extends ApiObject> extends Pick<ApiCall, 'remedy' | 'absence'> {
  readonly kind: string;
  readonly path: string;
  /** As it is in a query; empty for all of the path. */
  readonly selector: string;
  readonly schema: z.ZodMiniType<T>;
  readonly limits: AnswerLimits;
  /** Which of them are kept, where a selector cannot say it: the others take no memory. All unless given. */
  readonly isKept?: (object: T) => boolean;
  /** One of them that cannot be read any more is gone. Unless given, what was last known of it counts. */
  readonly dropsUnreadable?: true;
  /** An older API may not have this kind (404): then there is none of it. */
  readonly mayBeMissing?: true;
}

/** How much of a kind is taken: whoever answers may not be who was asked. */
export interface AnswerLimits {
  /** The objects that there may be. */
  readonly objects: number;
  /** The characters of one page of a list, and of one event. */
  readonly characters: number;
  /** The objects that one answer is to have, the rest is asked for afterwards; null for all in one. */
  readonly page: number | null;
}

/**
 * Of a kind of which one object is asked for: an answer with many is none of that. kube-apiserver takes no object above 1.5 MiB,
 * and those of interest have 1 KiB.
 */
const oneObject: AnswerLimits = { objects: 100, characters: 2_000_000, page: null };

/** The role that `vipnat manifest daemonset` prints. */
const remedy =
  'allow it to get, list and watch services and endpointslices.discovery.k8s.io in the namespace default';

/** The EndpointSlice of a name. Asked for by its name, so that a role can be limited to it. */
export function toSliceResource({ namespace, name }: NamespacedName): Resource<EndpointSlice> {
  const all = { kind: 'EndpointSlice', path: '/apis/discovery.k8s.io/v1/endpointslices', schema: slice };
  return narrow({ ...all, limits: oneObject, remedy }, namespace, selectName(name));
}

/** The Service of a name. Asked for by its name, so that a role can be limited to it. */
export function toServiceResource({ namespace, name }: NamespacedName): Resource<Service> {
  const all = { kind: 'Service', path: '/api/v1/services', schema: service };
  return narrow({ ...all, limits: oneObject, remedy }, namespace, selectName(name));
}

/** The selector of one object. */
export function selectName(name: string): string {
  return `fieldSelector=${encodeURIComponent(`metadata.name=${name}`)}`;
}

/** Those objects of a kind that are of a namespace, as far as a selector selects them. */
export function narrow<T extends ApiObject>(
  resource: Omit<Resource<T>, 'selector'>,
  namespace: string,
  selector: string,
): Resource<T> {
  const path = resource.path.replace(/[^/]+$/, (plural) => `namespaces/${namespace}/${plural}`);
  return { ...resource, path, selector };
}

/** A path with its query; parts that are empty are left out. */
export function joinQuery(path: string, parts: readonly string[]): string {
  const query = parts.filter((part) => part !== '').join('&');
  return query === '' ? path : `${path}?${query}`;
}
