import { type VirtualIp } from '../../lib/services/objects.ts';

/** Since when VirtualIPs are wanted as they are: their own dates tell only when they were made, and an address changes its Services. */
export class Generations {
  readonly #nameToMs = new Map<string, number>();
  readonly #nameToVersion = new Map<string, string>();
  /** Those that nobody has looked at since. */
  readonly #fresh = new Set<string>();

  /** One has changed. */
  change(name: string, before: VirtualIp | null, after: VirtualIp | null): void {
    if (before?.metadata.generation === after?.metadata.generation) return;
    this.#nameToMs.delete(name);
    if (after === null) {
      this.#fresh.delete(name);
      this.#nameToVersion.delete(name);
      return;
    }
    this.#fresh.add(name);
    this.#nameToVersion.set(name, after.metadata.resourceVersion);
  }

  /** Their names to the moment of the first look, which may be this one. */
  since(nowMs: number): ReadonlyMap<string, number> {
    for (const name of this.#fresh) this.#nameToMs.set(name, nowMs);
    this.#fresh.clear();
    return this.#nameToMs;
  }

  /** Their names to the versions that were heard first of what is wanted now. */
  get versions(): ReadonlyMap<string, string> {
    return this.#nameToVersion;
  }
}
