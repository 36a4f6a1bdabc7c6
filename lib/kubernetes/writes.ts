import type { Connection, ApiRoute } from './route.ts';
import { type Asking, type ApiMessage, exchange, readJson, objectVersion } from './client.ts';
import { VipnatError } from '../errors.ts';
import * as z from 'zod/mini';
import type { Clock } from '../clock.ts';

/** An event of events.k8s.io/v1, of this name. Those about what has no namespace are in `default`. Source: events.k8s.io/v1. */
export interface ApiEvent {
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly series?: object;
  readonly [field: string]: unknown;
}

/** What became of an event that was sent. It is gone where the API has forgotten the event that was to be changed. */
export type EventAnswer = Pick<WriteAnswer, 'detail' | 'outcome'>;

/** An apiserver answers in milliseconds; nobody waits for it. */
const limitMs = 5000;

/**
 * Creates an event. One of the same name that is there already is an earlier try whose answer was lost.
 * @throws VipnatError API_UNREACHABLE, API_UNTRUSTED, API_FORBIDDEN for 401, or API_ANSWER_UNEXPECTED
 */
export async function createEvent(options: Asking, event: ApiEvent): Promise<EventAnswer> {
  return await sendEvent(options, { method: 'POST', path: toCollection(event), body: event });
}

/**
 * Reports how often the same has happened since an event was created. What else it says cannot be changed.
 * @throws VipnatError as `createEvent`
 */
export async function updateSeries(options: Asking, event: ApiEvent): Promise<EventAnswer> {
  const path = `${toCollection(event)}/${event.metadata.name}`;
  return await sendEvent(options, { method: 'PATCH', path, body: { series: event.series } });
}

function toCollection({ metadata: { namespace } }: ApiEvent): string {
  return `/apis/events.k8s.io/v1/namespaces/${namespace}/events`;
}

/** A Status, or the event as the API has it now. */
const maxAnswerLength = 100_000;

const eventStatuses: ReadonlySet<number> = new Set([200, 201, 400, 403, 404, 409, 413, 422]);

async function sendEvent(options: Asking, write: Omit<ObjectWrite, 'title'>): Promise<EventAnswer> {
  const asked = { title: 'writing an event', path: write.path, message: toMessage(write) };
  const call = { ...options, ...asked, limitMs, accepted: eventStatuses };
  const { status, text, what, describe } = await exchange(call, maxAnswerLength);
  if (status < 300 && !event.safeParse(readJson(text)).success)
    throw new VipnatError('API_ANSWER_UNEXPECTED', `${what} failed: the answer is not an event`);
  const known = status === 409 ? 'taken' : (statusToOutcome.get(status) ?? 'refused');
  return { outcome: isEnding(text) ? 'refused' : known, detail: describe() };
}

const ending = z.object({
  code: z.literal(403),
  details: z.object({ causes: z.array(z.object({ reason: z.string() })) }),
});

/** Whether the event's namespace is being deleted: no right would help. The reason is Kubernetes' (NamespaceTerminatingCause). */
function isEnding(body: string): boolean {
  const { data } = ending.safeParse(readJson(body));
  return data?.details.causes.some(({ reason }) => reason === 'NamespaceTerminating') === true;
}

const event = z.object({ kind: z.literal('Event') });

/**
 * Writing one object with its version.
 *
 * Goal: of two writers one is refused, and a writer knows what became of its write.
 * Tension: others write fields that we do not know, and an answer can be lost after the write was done.
 * Compromise: a change is a merge patch with the version that was read, so that it keeps foreign fields and is refused after
 * any other write. A lost answer is `unreachable`: who tries again meets `exists` or `conflict`, and reads again.
 */

/** A write of one object. */
export interface ObjectWrite {
  /** What it is for, to begin a sentence with: `creating VirtualIP 10.0.9.10`. */
  readonly title: string;
  /** PATCH is a merge patch (RFC 7386): a list is replaced as a whole. DELETE has DeleteOptions as its body. */
  readonly method: ApiMessage['method'];
  /** PATCH is a strategic merge patch: lists of some kinds are merged by a key of theirs. Custom resources have none. False unless given. */
  readonly isStrategic?: boolean;
  /** Of the object, with `/status` where that is meant; of its collection where it is created. */
  readonly path: string;
  /** A change has the version that was read in its metadata, a deletion version and uid in its preconditions. */
  readonly body: unknown;
}

/** What became of a write. */
export type WriteOutcome =
  /** The API has it. */
  | 'taken'
  /** Somebody else has written the object since it was read: nothing was done. */
  | 'conflict'
  /** The object that was to be created is there already, by whomever. */
  | 'exists'
  /** There is no such object any more. */
  | 'gone'
  /** The credentials do not allow it, or a policy of the cluster. */
  | 'forbidden'
  /** The API will never take this one. */
  | 'refused'
  /** No answer that says anything: it may have been done, or not. */
  | 'unreachable';

/** The answer to a write. */
export interface WriteAnswer {
  readonly outcome: WriteOutcome;
  /** What was answered, as a sentence that can continue. */
  readonly detail: string;
  /** The object's version after the write; null where nothing was written, or the object is gone. */
  readonly version: string | null;
}

/** kube-apiserver takes no object above 1.5 MiB. */
const maxObjectLength = 2_000_000;

/**
 * Writes one object, once.
 * @throws VipnatError as `callApi`, where no answer says what became of it
 */
async function writeObject(options: Asking, write: ObjectWrite, limitMs: number): Promise<WriteAnswer> {
  const { title, path } = write;
  const accepted = new Set(statusToOutcome.keys());
  const call = { ...options, title, path, limitMs, message: toMessage(write), accepted };
  const { status, text, what, describe } = await exchange(call, maxObjectLength);
  const detail = describe();
  if (status >= 300) return { outcome: toOutcome(status, text), detail, version: null };
  const parsed = written.safeParse(readJson(text));
  if (parsed.success) return { outcome: 'taken', detail, version: readVersion(parsed.data) };
  return { outcome: 'unreachable', detail: `${what} failed: the answer is not an object`, version: null };
}

function toMessage({ method, body, isStrategic = false }: Omit<ObjectWrite, 'title'>): ApiMessage {
  const patchType = `application/${isStrategic ? 'strategic-' : ''}merge-patch+json`;
  const contentType = method === 'PATCH' ? patchType : 'application/json';
  return { method, contentType, text: JSON.stringify(body) };
}

const rows: readonly (readonly [WriteOutcome, ...number[]])[] = [
  ['taken', 200, 201, 202],
  ['conflict', 409],
  ['gone', 404, 410],
  ['forbidden', 403],
  ['refused', 400, 413, 415, 422],
  // Too many requests, and faults of a server: a later try may be taken.
  ['unreachable', 429, 500, 502, 503, 504],
];

const statusToOutcome = new Map(
  rows.flatMap(([outcome, ...all]) => all.map((status) => [status, outcome] as const)),
);

const reason = z.object({ reason: z.string() });

function toOutcome(status: number, text: string): WriteOutcome {
  if (status === 409 && reason.safeParse(readJson(text)).data?.reason === 'AlreadyExists') return 'exists';
  return statusToOutcome.get(status) ?? 'unreachable';
}

const written = z.object({
  kind: z.string(),
  metadata: z.optional(z.object({ resourceVersion: z.optional(objectVersion) })),
});

/** Of what was deleted for good there is only a Status. */
function readVersion({ kind, metadata }: z.output<typeof written>): string | null {
  return kind === 'Status' ? null : (metadata?.resourceVersion ?? null);
}

/** The answer to a read of one object. */
export type ReadAnswer<T> =
  | { readonly outcome: 'found'; readonly object: T }
  /** There is no such object. */
  | { readonly outcome: 'gone' }
  | { readonly outcome: 'forbidden'; readonly detail: string }
  | { readonly outcome: 'unreachable'; readonly detail: string };

/** An object to read. */
export interface ObjectRead<T> extends Pick<ObjectWrite, 'title' | 'path'> {
  readonly schema: z.ZodMiniType<T>;
}

/** Reads and writes single objects. Neither rejects, and each ends within its limit. */
export interface ObjectClient {
  read<T>(read: ObjectRead<T>, limitMs: number): Promise<ReadAnswer<T>>;
  write(write: ObjectWrite, limitMs: number): Promise<WriteAnswer>;
}

/** A client of the apiservers of a route. One that does not answer is not the first to be asked next. */
export class RoutedClient implements ObjectClient {
  readonly #route: ApiRoute;
  readonly #clock: Clock;
  readonly #signal: AbortSignal;

  /** What is in progress ends when the signal comes. */
  constructor(route: ApiRoute, clock: Clock, signal: AbortSignal) {
    this.#route = route;
    this.#clock = clock;
    this.#signal = signal;
  }

  async read<T>({ title, path, schema }: ObjectRead<T>, limitMs: number): Promise<ReadAnswer<T>> {
    return await this.#ask(async (options) => {
      const call = { ...options, title, path, limitMs, accepted: new Set([200, 403, 404]) };
      const { status, text, what, describe } = await exchange(call, maxObjectLength);
      if (status === 404) return { outcome: 'gone' };
      if (status === 403) return { outcome: 'forbidden', detail: describe() };
      const parsed = schema.safeParse(readJson(text));
      if (parsed.success) return { outcome: 'found', object: parsed.data };
      return { outcome: 'unreachable', detail: `${what} failed: the answer is not such an object` };
    });
  }

  async write(write: ObjectWrite, limitMs: number): Promise<WriteAnswer> {
    return await this.#ask((options) => writeObject(options, write, limitMs));
  }

  async #ask<Answer extends { readonly outcome: string }>(ask: (options: Asking) => Promise<Answer>) {
    let connection: Connection | null = null;
    try {
      connection = await this.#route.choose();
      const { forbidden } = this.#route;
      const answer = await ask({ ...connection, clock: this.#clock, forbidden, signal: this.#signal });
      if (answer.outcome === 'unreachable') this.#route.markFailed(connection.server);
      return answer;
    } catch (error) {
      if (connection !== null) this.#route.markFailed(connection.server);
      const isForbidden = error instanceof VipnatError && error.code === 'API_FORBIDDEN';
      const detail = error instanceof Error ? error.message : String(error);
      return { outcome: isForbidden ? 'forbidden' : 'unreachable', detail, version: null } as const;
    }
  }
}
