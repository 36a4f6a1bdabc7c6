import { type ApiObject, toKey } from './api-object.ts';
import { type WatchEvent } from './answers.ts';
import { NonsenseError, type Unreadable } from './errors.ts';
import { type Resource } from './resources.ts';

/** An object that came (`before` is null), changed, or went (`after` is null). */
export interface Change<T> {
  /** See `toKey`. */
  readonly key: string;
  readonly before: T | null;
  readonly after: T | null;
}

type UnreadableEvent = Extract<WatchEvent<never>, { type: 'unreadable' }>;

/** The objects of one kind, by their keys, as a list and the events after it have them. One event costs as much among 100,000 objects as among ten. */
export class ObjectStore<T extends ApiObject> {
  readonly #resource: Resource<T>;
  #objects = new Map<string, T>();

  constructor(resource: Resource<T>) {
    this.#resource = resource;
  }

  /** All objects: a view, which changes with them. */
  get objects(): ReadonlyMap<string, T> {
    return this.#objects;
  }

  /**
   * Takes a whole list. Answers what differs from before. An object of the same version is the same object. One that cannot be read
   * stays as it was.
   */
  replace(listed: readonly T[], unreadable: readonly Unreadable[] = []): Change<T>[] {
    const before = this.#objects;
    this.#objects = new Map();
    for (const one of this.#resource.dropsUnreadable === true ? [] : unreadable) {
      const [key, known] = find(before, one);
      if (known !== null) this.#objects.set(key, known);
    }
    const changes: Change<T>[] = [];
    for (const after of listed) {
      const key = toKey(after);
      const known = before.get(key) ?? null;
      const isSame = known !== null && hasSameVersion(known, after);
      this.#objects.set(key, isSame ? known : after);
      if (!isSame) changes.push({ key, before: known, after });
    }
    const gone = [...before].filter(([key]) => !this.#objects.has(key));
    return [...gone.map(([key, object]) => ({ key, before: object, after: null })), ...changes];
  }

  /**
   * Takes an event. Answers what it changes. One that is older than what is known is of a server that is behind: it changes nothing.
   * @throws NonsenseError when there are more objects than there may be.
   */
  apply(event: WatchEvent<T>): Change<T>[] {
    if (event.type === 'bookmark') return [];
    return event.type === 'unreadable' ? this.#applyUnreadable(event) : this.#applyObject(event);
  }

  #applyUnreadable({ isGone, unreadable }: UnreadableEvent): Change<T>[] {
    if (!isGone && this.#resource.dropsUnreadable !== true) return [];
    return this.#drop(...find(this.#objects, unreadable));
  }

  #applyObject(event: Exclude<WatchEvent<T>, UnreadableEvent | { type: 'bookmark' }>): Change<T>[] {
    const { object } = event;
    const key = toKey(object);
    const before = this.#objects.get(key) ?? null;
    if (before !== null && isOlder(object, before)) return [];
    if (event.type === 'delete' || this.#resource.isKept?.(object) === false) return this.#drop(key, before);
    return before !== null && hasSameVersion(before, object) ? [] : [this.#put(key, before, object)];
  }

  #drop(key: string, before: T | null): Change<T>[] {
    this.#objects.delete(key);
    return before === null ? [] : [{ key, before, after: null }];
  }

  #put(key: string, before: T | null, object: T): Change<T> {
    const { kind, limits } = this.#resource;
    if (before === null && this.#objects.size === limits.objects)
      throw new NonsenseError(`it sends more than ${limits.objects} ${kind}s`);
    this.#objects.set(key, object);
    return { key, before, after: object };
  }
}

/** What is known of an object. Of some kinds the namespace is not read. */
function find<T>(objects: ReadonlyMap<string, T>, { key }: Unreadable): [key: string, known: T | null] {
  const name = key.split('/').at(-1) ?? '';
  const found = objects.has(key) ? key : name;
  return [found, objects.get(found) ?? null];
}

/** Versions of one kind can be compared as numbers (Kubernetes, KEP 5504); one that is no number is never older. */
function isOlder({ metadata: one }: ApiObject, { metadata: other }: ApiObject): boolean {
  const [version, known] = [one.resourceVersion, other.resourceVersion];
  if (!number.test(version) || !number.test(known)) return false;
  return version.length === known.length ? version < known : version.length < known.length;
}

const number = /^[1-9]\d*$/;

function hasSameVersion(one: ApiObject, other: ApiObject): boolean {
  return one.metadata.resourceVersion === other.metadata.resourceVersion;
}
