/** How many questions one apiserver gets within a second: the regular one, and three that cannot wait. */
export const questionsPerSecond = 4;

const secondMs = 1000;

/** A connection that closes is followed by a burst of connects this often at most: one that is closed at once, each time, says nothing new. */
const burstRestMs = 10_000;

/** A closed connection keeps its source port for a minute: so 30 of the drain ports are taken, and no more. */
export const drainCheckMs = 2000;

/** A pinger makes two connections when an apiserver falls silent. One that is slow costs a handshake in two seconds. */
const pingConnections = 2;
const pingRestMs = 4000;

/**
 * Limits what is sent to one apiserver (I13). Every sender asks here first. The budget outlives its prober: a new prober
 * for the same apiserver continues with what is left.
 */
export class ProbeBudget {
  /** When the last questions were sent, oldest first. */
  #questions: readonly number[] = [];
  /** When the last connections for pings were begun, oldest first. */
  #pingConnections: readonly number[] = [];
  #connectedAt = -Infinity;
  #burstAt = -Infinity;
  #alarmedAt = -Infinity;
  #drainCheckedAt = -Infinity;

  /** When the next question may be sent; the past when it may be sent at once. */
  get questionFrom(): number {
    const oldest = this.#questions.at(-questionsPerSecond);
    return oldest === undefined ? -Infinity : oldest + secondMs;
  }

  /** When the last connect was begun. */
  get connectedAt(): number {
    return this.#connectedAt;
  }

  /** Answers whether a question may be sent now, and counts it as sent when it may. */
  takeQuestion(now: number): boolean {
    if (this.questionFrom > now) return false;
    this.#questions = [...this.#questions, now].slice(-questionsPerSecond);
    return true;
  }

  /** Counts a connect as begun now. */
  noteConnect(now: number): void {
    this.#connectedAt = now;
  }

  /** Answers whether a burst of connects may begin now, and counts it as begun when it may. */
  takeBurst(now: number): boolean {
    if (now - this.#burstAt < burstRestMs) return false;
    this.#burstAt = now;
    return true;
  }

  /** Answers whether a pinger may make a connection now, and counts it as made when it may. */
  takePingConnection(now: number): boolean {
    const oldest = this.#pingConnections.at(-pingConnections) ?? -Infinity;
    if (now - oldest < pingRestMs) return false;
    this.#pingConnections = [...this.#pingConnections, now].slice(-pingConnections);
    return true;
  }

  /** Answers whether a drain check may begin now, and counts it as begun when it may. */
  takeDrainCheck(now: number): boolean {
    if (now - this.#drainCheckedAt < drainCheckMs) return false;
    this.#drainCheckedAt = now;
    return true;
  }

  /**
   * Answers whether a bad answer of this apiserver may cost the others a question now, and counts it when it may: once,
   * and once more after it has answered well. `readyAt` is when the last question was asked that it answered well.
   */
  takeAlarm(readyAt: number, now: number): boolean {
    if (this.#alarmedAt !== -Infinity && readyAt <= this.#alarmedAt) return false;
    this.#alarmedAt = now;
    return true;
  }

  /** Whether nothing in it limits anything any more. */
  isIdle(now: number): boolean {
    const lastAt = Math.max(
      this.#connectedAt,
      this.#burstAt,
      this.#alarmedAt,
      this.#drainCheckedAt,
      this.#questions.at(-1) ?? -Infinity,
      this.#pingConnections.at(-1) ?? -Infinity,
    );
    return now - lastAt >= burstRestMs;
  }
}

/** The budgets of all apiservers, by their text. */
export class ProbeBudgets {
  readonly #budgets = new Map<string, ProbeBudget>();

  /** The budget of one: always the same while it limits anything. */
  of(text: string): ProbeBudget {
    const budget = this.#budgets.get(text) ?? new ProbeBudget();
    this.#budgets.set(text, budget);
    return budget;
  }

  /** Forgets those of apiservers that are not probed any more, as soon as nothing depends on them. */
  forgetIdle(probed: ReadonlySet<string>, now: number): void {
    for (const [text, budget] of this.#budgets)
      if (!probed.has(text) && budget.isIdle(now)) this.#budgets.delete(text);
  }
}
