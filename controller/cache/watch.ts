import { type Change } from '../../lib/kubernetes/object-store.ts';
import { type Known, type Objects } from './known.ts';

/** What steps are asked for: each has its own place in the queue. */
export interface StepKey {
  /** See `Kind`. */
  readonly kind: string;
  /** `NAMESPACE/NAME`, or the name alone. */
  readonly key: string;
}

/** What keys can wait for. A change of what a kind watches is always such a thing. */
export type WaitsFor =
  /** A report of a node, a node that comes or goes, a Lease that ran out. */
  | 'nodes'
  /** A VirtualIP that is deleted or given back, a pool, a namespace's labels. */
  | 'addresses'
  /** Each of both: one address is missing, and nodes are to have another one. */
  | 'nodes or addresses'
  /** Time alone: see `untilMs`. */
  | 'time';

/** Whether what has happened is what a key waits for. */
export function isWoken(waitsFor: WaitsFor, wakes: ReadonlySet<WaitsFor>): boolean {
  if (waitsFor === 'nodes or addresses') return wakes.has('nodes') || wakes.has('addresses');
  return wakes.has(waitsFor);
}

/** What is to be looked at after a change: these keys, and all keys whose last step waits for one of these. */
export interface Affected {
  readonly keys: readonly StepKey[];
  readonly wakes: ReadonlySet<WaitsFor>;
}

/** What can be watched: objects, and what the cache concludes. */
export interface Watchable extends Objects {
  /** A pool, or what others have, has changed: all pools are judged anew. */
  readonly judgements: true;
  /** By the names of pools: other addresses of the pool are kept back. */
  readonly claims: true;
}

/** A name of one. */
export type Source = keyof Watchable;

/** What a change means for a kind. */
export interface Watching<T> {
  /** What of an object is of interest, to be compared as JSON: a change of anything else is no news. All of it unless given. */
  readonly part?: (object: T) => unknown;
  /** The keys of the kind that are to be looked at. */
  readonly toKeys?: (change: Change<T>, known: Known) => Iterable<string>;
  /** Whether `toKeys` is asked before the change, too: the objects that it finds then are not to be found any more afterwards. */
  readonly isAskedBefore?: true;
  /** Which keys that wait, of whatever kind, are to be looked at. */
  readonly wakes?: (change: Change<T>, known: Known) => readonly WaitsFor[];
}

/** What changes of a source mean for a kind. */
export type Watch = { [S in Source]: { readonly source: S } & Watching<Watchable[S]> }[Source];

/** Gathers what a change means. */
export class News implements Affected {
  readonly #textToKey = new Map<string, StepKey>();
  readonly wakes = new Set<WaitsFor>();

  /** Each once. */
  get keys(): readonly StepKey[] {
    return [...this.#textToKey.values()];
  }

  /** Keys of a kind. */
  add(kind: string, keys: Iterable<string>): void {
    for (const key of keys) this.#textToKey.set(`${kind}/${key}`, { kind, key });
  }

  /** What keys wait for. */
  wake(waits: Iterable<WaitsFor>): void {
    for (const wait of waits) this.wakes.add(wait);
  }

  /** All of another one. */
  join({ keys, wakes }: Affected): void {
    for (const { kind, key } of keys) this.add(kind, [key]);
    this.wake(wakes);
  }
}

/** Whether a change is one of what is of interest. */
export function isNews<T>({ before, after }: Change<T>, part?: (object: T) => unknown): boolean {
  if (part === undefined) return true;
  const [was, is] = [before, after].map((object) => (object === null ? null : (part(object) ?? 0)));
  return JSON.stringify(was) !== JSON.stringify(is);
}
