/** VRIDs that no seat gets, by where they are known from. A change costs nothing until somebody asks. */
export class ReservedVrids {
  readonly #sourceToVrids = new Map<string, readonly number[]>();
  /** Null: something changed since it was made. */
  #all: ReadonlySet<number> | null = null;

  /** What a source says now, in place of what it said before. Answers whether that is another. A source that says nothing is forgotten. */
  put(source: string, vrids: Iterable<number>): boolean {
    const list = [...vrids];
    const before = this.#sourceToVrids.get(source) ?? [];
    if (list.join() === before.join()) return false;
    this.#all = null;
    if (list.length === 0) this.#sourceToVrids.delete(source);
    else this.#sourceToVrids.set(source, list);
    return true;
  }

  /** All of them. */
  get all(): ReadonlySet<number> {
    this.#all ??= new Set([...this.#sourceToVrids.values()].flat());
    return this.#all;
  }
}
