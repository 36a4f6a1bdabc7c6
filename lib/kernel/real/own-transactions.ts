/** Tells the transactions of nftables that this process makes from those of others: each moves the generation by one. */
export class OwnTransactions {
  readonly #underWay = new Set<Promise<boolean>>();
  #count = 0;

  /** Runs work that has made exactly one transaction if it answers true; none, or nobody knows, if it answers false or rejects. */
  async run(work: () => Promise<boolean>): Promise<boolean> {
    const running = work().then((isDone) => {
      if (isDone) this.#count += 1;
      return isDone;
    });
    this.#underWay.add(running);
    try {
      return await running;
    } finally {
      this.#underWay.delete(running);
    }
  }

  /**
   * A number that changes with the transactions of others. Waits for own work under way, as its transaction may count already. One
   * that failed halfway counts as theirs.
   */
  async countForeign(readGeneration: () => Promise<number>): Promise<number> {
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
    const own = this.#count;
    return (await readGeneration()) - own;
  }
}
