/** When each apiserver was last lost to new connections: one that is ejected often has to be good for long before it is used again. */
export class Ejections {
  readonly #ejections: { readonly apiserver: string; readonly atMs: number }[] = [];

  note(apiserver: string): void {
    this.#ejections.push({ apiserver, atMs: performance.now() });
  }

  count(apiserver: string, withinMs: number): number {
    const since = performance.now() - withinMs;
    return this.#ejections.filter((one) => one.apiserver === apiserver && one.atMs > since).length;
  }
}
