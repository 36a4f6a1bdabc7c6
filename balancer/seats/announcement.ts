/** Finds up to which version of VirtualIPs all addresses of this node's seats are on its interfaces: also while ever more are on their way. */
export class Announcement {
  /** Addresses that are missing, the one that was found so first before the others, to the version at which none of them was wanted. */
  readonly #missingToVersion = new Map<string, string | null>();
  #lookedAt: string | null = null;

  /** Takes which addresses are missing as of a version. Answers the version up to which none is; null where that is not known. */
  note(version: string | null, missing: readonly string[]): string | null {
    const now = new Set(missing);
    for (const text of this.#missingToVersion.keys()) if (!now.has(text)) this.#missingToVersion.delete(text);
    for (const text of now) {
      if (!this.#missingToVersion.has(text)) this.#missingToVersion.set(text, this.#lookedAt);
    }
    this.#lookedAt = version;
    const [oldest = version] = this.#missingToVersion.values();
    return oldest;
  }
}
