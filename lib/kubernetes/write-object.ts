/**
 * Writing one object with its version.
 *
 * Goal: of two writers one is refused, and a writer knows what became of its write.
 * Tension: others write fields that we do not know, and an answer can be lost after the write was done.
 * Compromise: a change is a merge patch with the version that was read, so that it keeps foreign fields and is refused after
 * any other write. A lost answer is `unreachable`: who tries again meets `exists` or `conflict`, and reads anew.
 */
import * as z from 'zod/mini';
import { version } from './api-object.ts';
import { exchange } from './exchange.ts';
import { readJson } from './read-json.ts';
import { type ApiCall, type ApiMessage, describeStatus } from './request.ts';
import { type Connection } from './route.ts';
import { formatServer } from './servers.ts';

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
  /** What was answered, as a sentence that can go on. */
  readonly words: string;
  /** The object's version after the write; null where nothing was written, or the object is gone. */
  readonly version: string | null;
}

/** What writing takes. It ends within `limitMs`. */
export type WriteOptions = Connection &
  Pick<ApiCall, 'clock' | 'forbidden' | 'signal'> & { readonly limitMs: number };

/** kube-apiserver takes no object above 1.5 MiB. */
const maxAnswerLength = 2_000_000;

/**
 * Writes one object, once.
 * @throws VipnatError as `callApi`, where no answer says what became of it
 */
export async function writeObject(options: WriteOptions, write: ObjectWrite): Promise<WriteAnswer> {
  const { limitMs } = options;
  const limits = { beginMs: limitMs, endMs: limitMs };
  const { title, path } = write;
  const call = { ...options, title, path, limits, message: toMessage(write), accepted };
  const { status, text } = await exchange(call, maxAnswerLength);
  const what = `${title} at ${formatServer(options.server)}`;
  const words = `${what} is answered with ${status}${describeStatus(text)}`;
  if (status >= 300) return { outcome: toOutcome(status, text), words, version: null };
  const parsed = written.safeParse(readJson(text));
  if (parsed.success) return { outcome: 'taken', words, version: readVersion(parsed.data) };
  return { outcome: 'unreachable', words: `${what} failed: the answer is not an object`, version: null };
}

function toMessage({ method, body, isStrategic = false }: ObjectWrite): ApiMessage {
  const patchType = `application/${isStrategic ? 'strategic-' : ''}merge-patch+json`;
  const contentType = method === 'PATCH' ? patchType : 'application/json';
  return { method, contentType, text: JSON.stringify(body) };
}

const statusToOutcome = new Map<number, WriteOutcome>([
  [200, 'taken'],
  [201, 'taken'],
  [202, 'taken'],
  [400, 'refused'],
  [403, 'forbidden'],
  [404, 'gone'],
  [409, 'conflict'],
  [410, 'gone'],
  [413, 'refused'],
  [415, 'refused'],
  [422, 'refused'],
  // Too many requests, and faults of a server: a later try may be taken.
  [429, 'unreachable'],
  [500, 'unreachable'],
  [502, 'unreachable'],
  [503, 'unreachable'],
  [504, 'unreachable'],
]);

const accepted = new Set(statusToOutcome.keys());

const reason = z.object({ reason: z.string() });

function toOutcome(status: number, text: string): WriteOutcome {
  if (status === 409 && reason.safeParse(readJson(text)).data?.reason === 'AlreadyExists') return 'exists';
  return statusToOutcome.get(status) ?? 'unreachable';
}

const written = z.object({
  kind: z.string(),
  metadata: z.optional(z.object({ resourceVersion: z.optional(version) })),
});

/** Of what was deleted for good there is only a Status. */
function readVersion({ kind, metadata }: z.output<typeof written>): string | null {
  return kind === 'Status' ? null : (metadata?.resourceVersion ?? null);
}
