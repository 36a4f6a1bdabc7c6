/**
 * When a key writes. What only tells people what is so anyway waits for others. And what is written again and again (S8) waits ever longer.
 *
 * Goal: what another program undoes, or the API drops without a word, costs a write a minute.
 * Tension: an owner who changes his mind asks for the same again, and gets it at once.
 * Compromise: five times at full pace, then ever later. Two writes are the same if they differ in nothing but versions, moments and
 * messages: a message that names other nodes each time is the same news.
 */
import { type Write } from './step.ts';
import { hashToNumber } from '../allocate/choose-address.ts';

/** How often steps are taken that can wait: half of what all steps together may write. */
const intervalMs = 100;

/** When keys with such a step have their turn: one after the other, in the order in which they came. */
export class LowPriority {
  readonly #keyToMs = new Map<string, number>();
  /** Of the last turn. */
  #lastMs = -Infinity;

  /** How long a key has to wait; 0 when its turn has come. It has to ask again then. */
  wait(key: string, nowMs: number): number {
    // One place for each key that waits: those that wait no longer have none.
    const dueMs = this.#keyToMs.get(key) ?? this.#lastMs + (this.#keyToMs.size + 1) * intervalMs;
    const earliestMs = Math.max(dueMs, this.#lastMs + intervalMs);
    if (earliestMs > nowMs) {
      this.#keyToMs.set(key, earliestMs);
      return earliestMs - nowMs;
    }
    this.#keyToMs.delete(key);
    this.#lastMs = nowMs;
    return 0;
  }

  /** There is nothing to wait for any more. */
  forget(key: string): void {
    this.#keyToMs.delete(key);
  }
}

/** So often at full pace. */
const freely = 5;

const firstWaitMs = 1000;
const longestWaitMs = 60_000;

/** What was not written for so long is written freely again. */
export const forgottenMs = 2 * 60_000;

/** After so many keys, those that are forgotten are dropped. */
const sweepAfter = 1000;

interface Repeated {
  count: number;
  /** How often in a row the messages were the same, too. */
  equal: number;
  whole: number;
  atMs: number;
}

/** Remembers what was written for keys of late. */
export class RepeatedWrites {
  readonly #keyToWrites = new Map<string, Map<number, Repeated>>();
  #noted = 0;

  /** How long a key has to wait before it makes a write; 0 for one that it may make now. */
  wait(key: string, write: Write, nowMs: number): number {
    const known = this.#find(key, write, nowMs);
    if (known === undefined || known.count < freely) return 0;
    const waitMs = Math.min(firstWaitMs * 2 ** (known.count - freely), longestWaitMs);
    return Math.max(0, known.atMs + waitMs - nowMs);
  }

  /** It has made a write, or another one was first. Answers whether it is word for word the sixth one or a later one. */
  note(key: string, write: Write, nowMs: number): boolean {
    const whole = hashWrite(write, volatile);
    const { count, equal, whole: before } = this.#find(key, write, nowMs) ?? { count: 0, equal: 0, whole };
    const repeated = { count: count + 1, equal: before === whole ? equal + 1 : 1, whole, atMs: nowMs };
    const writes = this.#keyToWrites.get(key) ?? new Map<number, Repeated>();
    this.#keyToWrites.set(key, writes.set(hashWrite(write, news), repeated));
    this.#noted += 1;
    if (this.#noted % sweepAfter === 0) this.#sweep(nowMs);
    return repeated.equal > freely;
  }

  /** Whether a key has not repeated itself of late. */
  isQuiet(key: string, nowMs: number): boolean {
    const writes = [...(this.#keyToWrites.get(key)?.values() ?? [])];
    return writes.every(({ count, atMs }) => count <= freely || nowMs - atMs >= forgottenMs);
  }

  #find(key: string, write: Write, nowMs: number): Repeated | undefined {
    const known = this.#keyToWrites.get(key)?.get(hashWrite(write, news));
    return known === undefined || nowMs - known.atMs >= forgottenMs ? undefined : known;
  }

  #sweep(nowMs: number): void {
    for (const [key, writes] of this.#keyToWrites) {
      for (const [text, { atMs }] of writes) if (nowMs - atMs >= forgottenMs) writes.delete(text);
      if (writes.size === 0) this.#keyToWrites.delete(key);
    }
  }
}

/** Fields that differ each time. */
const volatile: ReadonlySet<string> = new Set([
  'resourceVersion',
  'lastTransitionTime',
  'releasedAt',
  'renewal',
]);
const news: ReadonlySet<string> = new Set([...volatile, 'message']);

/** A number for what a write says, without some fields: texts of thousands of Services would take memory. */
function hashWrite({ method, path, body }: Write, without: ReadonlySet<string>): number {
  return hashToNumber(
    `${method} ${path} ${JSON.stringify(body, (name, value: unknown) => (without.has(name) ? undefined : value))}`,
  );
}
