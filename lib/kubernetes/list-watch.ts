import {
  type ApiObject,
  type Resource,
  type ApiCall,
  type Asking,
  joinQuery,
  callApi,
  NonsenseError,
  VersionGoneError,
  type Unreadable,
  LateError,
  TooLongError,
  objectVersion,
  readJson,
  quoteForeign,
  toBusy,
  BusyError,
} from './client.ts';
import type { Connection, ApiRoute } from './route.ts';
import type { Clock } from '../clock.ts';
import { VipnatError } from '../errors.ts';
import * as z from 'zod/mini';

/** How long a list may take, and the beginning of a watch: an apiserver answers both in milliseconds. */
export const answerMs = 5000;

/**
 * kube-apiserver sends a bookmark each minute (defaultBookmarkFrequency). One that has had no event of the kind since its start
 * may send none: then a new watch from the same version costs a request. Up to a fifth more, so that not all watches of a
 * frozen server come to the others at the same time.
 */
export const idleSeconds = 75;

/** The server ends it first. */
const graceMs = 10_000;

/** A watch, and who takes what it says. What these throw ends it. */
interface Watch<T> {
  /** From where. */
  readonly version: string;
  /** The server is to end it after these; some seconds later it is ended here. */
  readonly seconds: number;
  /** If nothing comes for these, not even a bookmark, it is ended here: the server, or the path to it, is frozen. */
  readonly idleSeconds: number;
  /** Called when the server begins to answer. */
  readonly onBegin: () => void;
  readonly onEvent: (event: WatchEvent<T>) => void;
  /** Called when the server has ended it in order. */
  readonly onEnd: () => void;
}

/**
 * Watches the objects of a kind to the end, by one request.
 * @throws VipnatError as `callApi`; VersionGoneError when the version is too old; IdleError after `idleSeconds`
 */
export async function watchObjects<T extends ApiObject>(
  resource: Resource<T>,
  options: Asking,
  { version, seconds, idleSeconds, onBegin, onEvent, onEnd }: Watch<T>,
): Promise<void> {
  const { kind, path, selector, limits, remedy } = resource;
  const query = `watch=true&allowWatchBookmarks=true&resourceVersion=${version}&timeoutSeconds=${seconds}`;
  const lines = new LineReader(limits.characters, (line) => {
    onEvent(readEvent(resource, line));
  });
  const call: ApiCall = {
    ...options,
    title: `watching ${kind}s`,
    path: joinQuery(path, [selector, query]),
    limits: { beginMs: answerMs, idleMs: idleSeconds * 1000, endMs: seconds * 1000 + graceMs },
    ...(remedy === undefined ? {} : { remedy }),
  };
  await callApi(call, {
    onBegin,
    onText: (text) => {
      lines.read(text);
    },
    onEnd: () => {
      lines.end();
      onEnd();
    },
  });
}

/** Cuts text that comes in pieces into lines, none of them longer than it may be. */
export class LineReader {
  readonly #maxLength: number;
  readonly #onLine: (line: string) => void;
  #rest = '';

  constructor(maxLength: number, onLine: (line: string) => void) {
    this.#maxLength = maxLength;
    this.#onLine = onLine;
  }

  /**
   * Takes the next piece, and hands on every line that it completes. Empty ones are left out.
   * @throws NonsenseError when a line is too long.
   */
  read(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) if (line !== '') this.#onLine(line);
    if (this.#rest.length > this.#maxLength) throw new NonsenseError('what it sends has no end');
  }

  /** No more comes: what is left is a line too. */
  end(): void {
    if (this.#rest !== '') this.#onLine(this.#rest);
    this.#rest = '';
  }
}

/** Lists all objects of a kind, for a command that asks and ends. Rejects with a VipnatError, see listObjects. */
export type ListAll = <T extends ApiObject>(resource: Resource<T>) => Promise<readonly T[]>;

/** For each page. An apiserver answers in milliseconds. */
const limitMs = 5000;

/** A version is forgotten after minutes, a list takes seconds: more than one further try helps nobody. */
const maxLists = 2;

/** Lists by a route: an apiserver that does not answer is passed over for the next one, until all have been asked. */
export function createLister(route: ApiRoute, clock: Clock, signal: AbortSignal): ListAll {
  async function list<T extends ApiObject>(connection: Connection, resource: Resource<T>, lists = 1) {
    try {
      const options = { ...connection, clock, forbidden: route.forbidden, signal, limitMs };
      return (await listObjects(resource, options)).objects;
    } catch (error) {
      if (!(error instanceof VersionGoneError)) throw error;
      if (lists < maxLists) return await list(connection, resource, lists + 1);
      const what = `listing ${resource.kind}s failed: the API forgot the list's version before its last page`;
      throw new VipnatError('API_ANSWER_UNEXPECTED', what, { cause: error });
    }
  }
  return async (resource) => {
    for (let servers = 1; ; servers += 1) {
      const connection = await route.choose();
      try {
        return await list(connection, resource);
      } catch (error) {
        route.markFailed(connection.server);
        const isAway = error instanceof VipnatError && error.code === 'API_UNREACHABLE';
        const isBusy = error instanceof VipnatError && error.cause instanceof BusyError;
        if (!(isAway || isBusy) || servers >= route.count) throw error;
      }
    }
  };
}

/** What listing takes; the limit is for each page. The size of pages is kept by who lists again and again. */
type ListOptions = Asking & { readonly limitMs: number; readonly size?: PageSize };

/**
 * All objects of a kind, page by page. Of a kind that may be missing, and is: none, as of no version (an empty text). Where objects are so large that a page is
 * too long, or takes too long, smaller pages are asked for.
 * @throws VipnatError API_UNREACHABLE, API_UNTRUSTED, API_FORBIDDEN or API_ANSWER_UNEXPECTED; VersionGoneError when the list's
 * version was forgotten before its last page: it has to be listed again.
 */
export async function listObjects<T extends ApiObject>(
  resource: Resource<T>,
  options: ListOptions,
): Promise<Omit<Page<T>, 'continueToken'>> {
  const { size = new PageSize(resource.limits) } = options;
  const objects: T[] = [];
  const unreadable: Unreadable[] = [];
  let token: string | null = null;
  for (let pages = 1; ; pages += 1) {
    const progress: Progress = { size, token, before: objects.length, pages };
    const page: Page<T> | null = await tryPage(resource, options, progress);
    if (page === null) continue;
    objects.push(...page.objects.filter((object) => resource.isKept?.(object) !== false));
    unreadable.push(...page.unreadable);
    token = page.continueToken;
    if (token !== null) continue;
    size.finish();
    return { version: page.version, objects, unreadable };
  }
}

interface Progress {
  readonly size: PageSize;
  readonly token: string | null;
  /** The objects of the pages before that are kept. */
  readonly before: number;
  /** With this one. A page of filtered objects can be empty. */
  readonly pages: number;
}

/** Null where fewer objects are to be asked for. A server that does not even begin to answer may be frozen: then others are asked first. */
async function tryPage<T extends ApiObject>(
  resource: Resource<T>,
  options: ListOptions,
  progress: Progress,
): Promise<Page<T> | null> {
  const answer = { hasBegun: false };
  const onBegin = () => (answer.hasBegun = true);
  try {
    return await listPage(resource, options, { ...progress, onBegin });
  } catch (error) {
    const { cause } = error as Error;
    const isLate = cause instanceof LateError;
    const isTooMuch = isLate || cause instanceof TooLongError;
    if (isTooMuch && progress.size.shrink({ isLate }) && answer.hasBegun) return null;
    throw error;
  }
}

async function listPage<T extends ApiObject>(
  resource: Resource<T>,
  options: ListOptions,
  { size, token, before, pages, onBegin }: Progress & { readonly onBegin: () => void },
): Promise<Page<T>> {
  const { kind, path, selector, limits, remedy, absence } = resource;
  const query = [
    selector,
    size.value === null ? '' : `limit=${size.value}`,
    token === null ? '' : `continue=${encodeURIComponent(token)}`,
  ];
  let text = '';
  let isMissing = false;
  return await callApi(
    {
      ...options,
      title: `listing ${kind}s`,
      path: joinQuery(path, query),
      limits: { beginMs: options.limitMs, endMs: options.limitMs },
      ...(remedy === undefined ? {} : { remedy }),
      ...(resource.mayBeMissing === true ? { accepted: new Set([200, 404]) } : {}),
      ...(absence === undefined ? {} : { absence }),
    },
    {
      onBegin: (status) => {
        onBegin();
        isMissing = status === 404;
      },
      onText: (part) => {
        text += part;
        if (text.length > limits.characters) throw new TooLongError('the answer is too long');
      },
      onEnd: () => {
        if (isMissing) return { version: '', objects: [], unreadable: [], continueToken: null };
        const page = readPage(resource, text);
        const count = page.objects.length + page.unreadable.length;
        if (before + count > limits.objects || pages > limits.objects)
          throw new NonsenseError(`it lists more than ${limits.objects} ${kind}s`);
        size.grow(count, text.length);
        return page;
      },
    },
  );
}

/** One answer to a list. Nothing of an answer is trusted. */
interface Page<T> {
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
    metadata: z.object({ resourceVersion: objectVersion, continue: z.nullish(continueToken) }),
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
    resourceVersion: objectVersion,
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
  const why = `it ends with error ${code}: ${quoteForeign(message ?? '')}`;
  return toBusy(code, '', why) ?? new NonsenseError(why);
}

/** A bookmark has nothing but its version. */
function readVersion(object: unknown): string {
  const bookmark = z.object({ metadata: z.object({ resourceVersion: objectVersion }) }).safeParse(object);
  if (!bookmark.success) throw new NonsenseError('it sends a bookmark without a version');
  return bookmark.data.metadata.resourceVersion;
}

/** An object has at most 1.5 MiB: from 500 of them to one takes three answers that are too long. */
const shrinkFactor = 8;

/** It grows by so much at most, and only as far as objects like the last ones fill half of an answer. */
const growFactor = 2;

/** How many objects a list asks for in one page: as many as answers have room for. Kept from one list to the next. Objects that are too large for one page are listed by smaller ones, down to one object. */
export class PageSize {
  readonly #most: number | null;
  /** Above it a page took too long. */
  #ceiling = Infinity;
  readonly #characters: number;
  #size: number | null;

  /** `page` and `characters` are those of `AnswerLimits`. */
  constructor({ page, characters }: { readonly page: number | null; readonly characters: number }) {
    this.#most = page;
    this.#characters = characters;
    this.#size = page;
  }

  /** The objects to ask for now; null for all. */
  get value(): number | null {
    return this.#size;
  }

  /** An answer was too long, or took too long: how long the next one takes nobody knows. Answers whether fewer can be asked for. */
  shrink({ isLate }: { readonly isLate: boolean }): boolean {
    if (this.#size === null || this.#size === 1) return false;
    this.#size = Math.max(1, Math.floor(this.#size / shrinkFactor));
    if (isLate) this.#ceiling = this.#size;
    return true;
  }

  /** An answer came with so many objects, of so many characters together. */
  grow(objects: number, characters: number): void {
    if (this.#size === null || this.#most === null) return;
    const mean = characters / Math.max(1, objects);
    const fitting = Math.max(1, Math.floor(this.#characters / 2 / mean));
    this.#size = Math.min(this.#most, fitting, this.#ceiling, this.#size * growFactor);
  }

  /** A whole list has come: the next one may try more. */
  finish(): void {
    this.#ceiling *= growFactor;
  }
}
