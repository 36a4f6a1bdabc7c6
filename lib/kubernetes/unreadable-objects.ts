import { type WatchEvent } from './answers.ts';
import { type ApiObject, toKey } from './api-object.ts';
import { type Unreadable } from './errors.ts';

/** Which objects of a kind cannot be read, by lists and the events after them. */
export class UnreadableObjects {
  /** Keys to why. */
  #keyToWhy: ReadonlyMap<string, string> = new Map();
  readonly #onFound: (unreadable: Unreadable) => void;

  /** `onFound` is told once of each object, and again where another field is not as it should be. */
  constructor(onFound: (unreadable: Unreadable) => void) {
    this.#onFound = onFound;
  }

  /** Their keys. */
  get keys(): readonly string[] {
    return [...this.#keyToWhy.keys()];
  }

  /** Those of a whole list. */
  replace(unreadable: readonly Unreadable[]): void {
    this.#set(unreadable, []);
  }

  /** An event: of an object that can be read, or cannot, or is gone. */
  apply(event: WatchEvent<ApiObject>): void {
    if (event.type === 'bookmark' || (event.type !== 'unreadable' && this.#keyToWhy.size === 0)) return;
    const key = event.type === 'unreadable' ? event.unreadable.key : toKey(event.object);
    // Of some kinds the namespace is not read: the key is the name alone.
    const others = [...this.#keyToWhy].filter(([each]) => each !== key && !each.endsWith(`/${key}`));
    this.#set(event.type === 'unreadable' && !event.isGone ? [event.unreadable] : [], others);
  }

  #set(unreadable: readonly Unreadable[], others: readonly [string, string][]): void {
    const before = this.#keyToWhy;
    this.#keyToWhy = new Map([...others, ...unreadable.map(({ key, why }): [string, string] => [key, why])]);
    for (const one of unreadable) if (before.get(one.key) !== one.why) this.#onFound(one);
  }
}
