/** Which writes of ours the informer has not shown yet. A key with one of them waits: its next step would rest on the past. */
export class OwnWrites {
  readonly #keyToWrite = new Map<string, OwnWrite>();
  readonly #objectToKeys = new Map<string, Set<string>>();

  /** A key's step was written. */
  add(key: string, write: OwnWrite): void {
    this.#keyToWrite.set(key, write);
    const keys = this.#objectToKeys.get(write.object) ?? new Set();
    this.#objectToKeys.set(write.object, keys.add(key));
  }

  /** Whether a key's last write is to be waited for, given the versions that are known; null is for an object that is not. */
  isAwaited(key: string, readVersion: (object: string) => string | null, now: number): boolean {
    const write = this.#keyToWrite.get(key);
    if (write === undefined) return false;
    if (now < write.untilMs && !isShown(write, readVersion(write.object))) return true;
    this.#forget(key, write);
    return false;
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

/** One write. */
export interface OwnWrite {
  /** `KIND/KEY` of what was written. */
  readonly object: string;
  /** The version that was known before; null where the object was not known. */
  readonly before: string | null;
  /** The version that it got; null where it was deleted. */
  readonly after: string | null;
  /** By the Clock: no longer than this. A list that was made after a gap may not have every version. */
  readonly untilMs: number;
}

const isNumber = /^\d+$/;

/** Versions of one kind are numbers that grow (Kubernetes, KEP 5504). */
function isShown({ before, after }: OwnWrite, known: string | null): boolean {
  if (known === null) return before !== null;
  if (after !== null && isNumber.test(known) && isNumber.test(after)) return BigInt(known) >= BigInt(after);
  return known !== before;
}
