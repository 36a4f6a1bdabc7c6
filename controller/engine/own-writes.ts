/**
 * Which writes of ours the informer has not shown yet. A key with one of them waits: its next step would rest on the past.
 *
 * A step that writes its own object could go on all the same: the version that it knows is refused. A Service's step that writes a
 * VirtualIP has no such guard: nothing tells the next step of an address that no list has yet, and the finalizer would go. So
 * where the answer of such a write was lost, or no list shows it in time, the object is read before the next step.
 */
export class OwnWrites {
  readonly #keyToWrite = new Map<string, OwnWrite>();
  readonly #objectToKeys = new Map<string, Set<string>>();

  /** A key's step was written. */
  add(key: string, write: OwnWrite): void {
    const before = this.#keyToWrite.get(key);
    if (before !== undefined) this.#forget(key, before);
    this.#keyToWrite.set(key, write);
    const keys = this.#objectToKeys.get(write.object) ?? new Set();
    this.#objectToKeys.set(write.object, keys.add(key));
  }

  /** What a key's last write means for its next step, given the versions that are known; null is for an object that is not. */
  judge(key: string, readVersion: (object: string) => string | null, now: number): Standing {
    const write = this.#keyToWrite.get(key);
    if (write === undefined) return { kind: 'clear' };
    if (!isShown(write, readVersion(write.object))) {
      if (write.after !== undefined && now < write.untilMs) return { kind: 'wait' };
      if (write.readPath !== null) return { kind: 'read', write, path: write.readPath };
    }
    this.#forget(key, write);
    return { kind: 'clear' };
  }

  /** A key's step was not written after all. */
  drop(key: string): void {
    const write = this.#keyToWrite.get(key);
    if (write !== undefined) this.#forget(key, write);
  }

  /** Whether an address of a pool may be given that no list shows. */
  mayHaveGivenOf(pool: string): boolean {
    return [...this.#keyToWrite.values()].some(({ givesOf }) => givesOf === pool);
  }

  /** The keys whose steps wrote an object: they may be due when it changes. */
  findWriters(object: string): readonly string[] {
    return [...(this.#objectToKeys.get(object) ?? [])];
  }

  #forget(key: string, { object }: OwnWrite): void {
    this.#keyToWrite.delete(key);
    const keys = this.#objectToKeys.get(object);
    keys?.delete(key);
    if (keys?.size === 0) this.#objectToKeys.delete(object);
  }
}

/** Whether a key may have its next step. */
export type Standing =
  | { readonly kind: 'clear' }
  /** The informer is to show the write first. */
  | { readonly kind: 'wait' }
  /** The object is to be read first: `add` takes what was found, as what the write made of it. */
  | { readonly kind: 'read'; readonly write: OwnWrite; readonly path: string };

/** One write. */
export interface OwnWrite {
  /** `KIND/KEY` of what was written. */
  readonly object: string;
  /** The version that was known before; null where the object was not known. */
  readonly before: string | null;
  /** The version that it got; null where it was deleted, or is not there; undefined where nobody knows whether it was written. */
  readonly after: string | null | undefined;
  /** Where the object is read, if nothing else tells what became of it; null where the next step needs no such thing. */
  readonly readPath: string | null;
  /** The pool whose address it gives, if it gives one. */
  readonly givesOf?: string | undefined;
  /** By the Clock: no longer than this without another look. A list that was made after a gap may not have every version. */
  readonly untilMs: number;
}

const isNumber = /^\d+$/;

/** Versions of one kind are numbers that grow (Kubernetes, KEP 5504). */
function isShown({ before, after }: OwnWrite, known: string | null): boolean {
  // Whatever came after the version that the write names says what became of the write.
  if (after === undefined) return known !== before;
  if (known === after) return true;
  if (known === null) return before !== null;
  if (after !== null && isNumber.test(known) && isNumber.test(after)) return BigInt(known) >= BigInt(after);
  return known !== before;
}
