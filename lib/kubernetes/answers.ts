/** How answers to lists and watches are read. Nothing of an answer is trusted. */
import * as z from 'zod/mini';
import { type ApiObject, version } from './api-object.ts';
import { NonsenseError, quoteForeign, type Unreadable, VersionGoneError } from './errors.ts';
import { readJson } from './read-json.ts';
import { type Resource } from './resources.ts';

/** One answer to a list. */
export interface Page<T> {
  /** Of the whole list: the same on all its pages. */
  readonly version: string;
  readonly objects: readonly T[];
  readonly unreadable: readonly Unreadable[];
  /** What to ask for the next page with; null on the last one. */
  readonly continueToken: string | null;
}

/** Opaque to clients: base64 of JSON, with a name in it. */
const continueToken = z.string().check(z.maxLength(4096));

/**
 * Reads an answer to a list.
 * @throws NonsenseError
 */
export function readPage<T extends ApiObject>({ kind, schema, limits }: Resource<T>, text: string): Page<T> {
  const list = z.object({
    kind: z.literal(`${kind}List`),
    metadata: z.object({ resourceVersion: version, continue: z.nullish(continueToken) }),
    items: z.nullish(z.array(z.unknown()).check(z.maxLength(limits.objects))),
  });
  const parsed = list.safeParse(readJson(text));
  if (!parsed.success) throw new NonsenseError(`the answer is not a ${kind}List`);
  const { items, metadata } = parsed.data;
  const token = metadata.continue ?? '';
  const objects: T[] = [];
  const unreadable: Unreadable[] = [];
  for (const item of items ?? []) {
    const read = schema.safeParse(item);
    if (read.success) objects.push(read.data);
    else unreadable.push(nameUnreadable(kind, item, read.error));
  }
  return {
    version: metadata.resourceVersion,
    objects,
    unreadable,
    continueToken: token === '' ? null : token,
  };
}

/** What a line of a watch says: an object that is there, one that is gone, or only how far the watch has come. */
export type WatchEvent<T> =
  | { readonly type: 'put' | 'delete'; readonly object: T; readonly version: string }
  | {
      readonly type: 'unreadable';
      readonly isGone: boolean;
      readonly unreadable: Unreadable;
      readonly version: string;
    }
  | { readonly type: 'bookmark'; readonly version: string };

const event = z.object({
  type: z.enum(['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR']),
  object: z.unknown(),
});

const status = z.object({ code: z.number(), message: z.nullish(z.string()) });

/**
 * Reads a line of a watch.
 * @throws NonsenseError; VersionGoneError when the version is too old.
 */
export function readEvent<T extends ApiObject>({ kind, schema }: Resource<T>, line: string): WatchEvent<T> {
  const parsed = event.safeParse(readJson(line));
  if (!parsed.success) throw new NonsenseError('it sends a line that is not an event');
  const { type, object } = parsed.data;
  if (type === 'ERROR') throw toError(object);
  if (type === 'BOOKMARK') return { type: 'bookmark', version: readVersion(object) };
  const changed = schema.safeParse(object);
  if (!changed.success) {
    const unreadable = nameUnreadable(kind, object, changed.error);
    return { type: 'unreadable', isGone: type === 'DELETED', unreadable, version: unreadable.version };
  }
  return {
    type: type === 'DELETED' ? 'delete' : 'put',
    object: changed.data,
    version: changed.data.metadata.resourceVersion,
  };
}

const identity = z.object({
  metadata: z.object({
    name: z.string().check(z.minLength(1), z.maxLength(253)),
    namespace: z.optional(z.string().check(z.maxLength(253))),
    resourceVersion: version,
  }),
});

/** @throws NonsenseError for what has no name: whoever answers is no apiserver. */
function nameUnreadable(kind: string, object: unknown, error: z.core.$ZodError): Unreadable {
  const known = identity.safeParse(object);
  if (!known.success) throw new NonsenseError(`it sends an object that is not a ${kind}`);
  const { name, namespace, resourceVersion } = known.data.metadata;
  const key = quoteForeign(namespace === undefined ? name : `${namespace}/${name}`);
  const why = quoteForeign((error.issues[0]?.path ?? []).map(String).join('.'));
  return { key, version: resourceVersion, why };
}

function toError(object: unknown): Error {
  const parsed = status.safeParse(object);
  if (!parsed.success) return new NonsenseError('it ends with an error that says nothing');
  const { code, message } = parsed.data;
  if (code === 410) return new VersionGoneError();
  return new NonsenseError(`it ends with error ${code}: ${quoteForeign(message ?? '')}`);
}

/** A bookmark has nothing but its version. */
function readVersion(object: unknown): string {
  const bookmark = z.object({ metadata: z.object({ resourceVersion: version }) }).safeParse(object);
  if (!bookmark.success) throw new NonsenseError('it sends a bookmark without a version');
  return bookmark.data.metadata.resourceVersion;
}
