/** Calls that wait until the model lets them pass: the places at which the world can change, or the process end. */
export class Gate {
  #waiting: { readonly name: string; readonly open: () => void }[] = [];

  /** What waits, the oldest first. */
  get names(): readonly string[] {
    return this.#waiting.map(({ name }) => name);
  }

  /** Waits. One that is never let pass belongs to a process that is gone. */
  pass(name: string): Promise<void> {
    return new Promise((open) => {
      this.#waiting.push({ name, open });
    });
  }

  /** Lets one pass: the oldest is at 0. */
  open(at: number): void {
    const [call] = this.#waiting.splice(at, 1);
    call?.open();
  }
}
