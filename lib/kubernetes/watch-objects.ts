import { readEvent, type WatchEvent } from './answers.ts';
import { type ApiObject } from './api-object.ts';
import { LineReader } from './line-reader.ts';
import { type ApiCall, callApi } from './request.ts';
import { joinQuery, type Resource } from './resources.ts';
import { type Connection } from './route.ts';

/** How long a list may take, and the beginning of a watch: an apiserver answers both in milliseconds. */
export const answerMs = 5000;

/**
 * kube-apiserver sends a bookmark each minute (defaultBookmarkFrequency). One that has had no event of the kind since its start
 * may send none: then a new watch from the same version costs a request. Up to a fifth more, so that not all watches of a
 * frozen server come to the others at once.
 */
export const silenceSeconds = 75;

/** The server ends it first. */
const graceMs = 10_000;

/** A watch, and who takes what it says. What these throw ends it. */
export interface Watch<T> {
  /** From where. */
  readonly version: string;
  /** The server is to end it after these; some seconds later it is ended here. */
  readonly seconds: number;
  /** If nothing comes for these, not even a bookmark, it is ended here: the server, or the way to it, is frozen. */
  readonly silenceSeconds: number;
  /** Told when the server begins to answer. */
  readonly onBegin: () => void;
  readonly onEvent: (event: WatchEvent<T>) => void;
  /** Told when the server has ended it in order. */
  readonly onEnd: () => void;
}

/**
 * Watches the objects of a kind to the end, by one request.
 * @throws VipnatError as `callApi`; VersionGoneError when the version is too old; SilenceError after `silenceSeconds`
 */
export async function watchObjects<T extends ApiObject>(
  resource: Resource<T>,
  options: Connection & Pick<ApiCall, 'clock' | 'forbidden' | 'signal'>,
  { version, seconds, silenceSeconds, onBegin, onEvent, onEnd }: Watch<T>,
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
    limits: { beginMs: answerMs, silenceMs: silenceSeconds * 1000, endMs: seconds * 1000 + graceMs },
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
