import type { NeighbourQuestion } from '../../lib/kernel/addresses.ts';
import type { Clock } from '../../lib/clock.ts';
import { HeldAddresses, type HeldAddress } from './keepalived.ts';
import type { PlacedAddress } from './plan.ts';

/**
 * Whether an address that this node holds, or is about to hold, is another host's.
 *
 * Goal: no Service gets an address that somebody uses already.
 * Tension: when an address moves from one node to the other, both may have it for a moment, and each is "another host".
 * Compromise: only who holds a seat asks, and only for an address that was not in its configuration before. Whoever takes a seat
 * over asks nothing. An address that was found in use is asked for again until nobody answers twice. What is held is asked for now
 * and then: see `HeldAddresses`.
 */

/** Asks the links who has addresses: answers MACs by address. */
export type FindAddressUsers = (
  questions: readonly NeighbourQuestion[],
) => Promise<ReadonlyMap<string, string>>;

/** The neighbour table of a host takes about a thousand (gc_thresh3). */
const mostAtOnce = 128;

/** An address that is in use is asked for again this often. */
const againMs = 30_000;

/** So many missing answers in a row are the end of its use. */
const proofs = 2;

interface UsedAddress {
  readonly question: NeighbourQuestion;
  readonly mac: string;
  nextAt: number;
  unanswered: number;
}

/** Remembers what was asked for, and what came of it. */
export class AddressConflicts {
  readonly #findUsers: FindAddressUsers;
  readonly #clock: Clock;
  readonly #onUse: (address: string, mac: string | null) => void;
  readonly #held: HeldAddresses;
  readonly #used = new Map<string, UsedAddress>();
  /** Asked for without an answer, and not in the file yet. */
  #free = new Set<string>();

  constructor(
    findUsers: FindAddressUsers,
    clock: Clock,
    onUse: (address: string, mac: string | null) => void,
  ) {
    this.#findUsers = findUsers;
    this.#clock = clock;
    this.#held = new HeldAddresses(clock);
    this.#onUse = onUse;
  }

  /** Addresses that another host has; sorted. */
  get used(): readonly string[] {
    return [...this.#used.keys()].sort();
  }

  /** Whether an address may be held: it is not in use, and was asked for if it had to be. */
  mayHold({ address }: PlacedAddress, isToAsk: boolean): boolean {
    if (this.#used.has(address.text)) return false;
    return !isToAsk || this.#free.has(address.text);
  }

  /**
   * Asks for those that have not been asked for, and again for those in use whose time has come; where there are none, for what is held.
   * Answers whether there are more to ask for. Rejects as the question does.
   */
  async ask(unannounced: readonly PlacedAddress[], held: readonly HeldAddress[] = []): Promise<boolean> {
    const now = this.#clock.now();
    const wanted = new Set(unannounced.map(({ address }) => address.text));
    this.#free = new Set([...this.#free].filter((text) => wanted.has(text)));
    const unknown = unannounced.filter(
      ({ address: { text } }) => !this.#free.has(text) && !this.#used.has(text),
    );
    const due = [...this.#used.values()].filter(({ nextAt }) => nextAt <= now);
    const questions = [
      ...unknown.map(({ address: { family, text }, device }) => ({ family, address: text, device })),
      ...due.map(({ question }) => question),
    ].slice(0, mostAtOnce);
    if (questions.length === 0) {
      await this.#askForHeld(held);
      return false;
    }
    const users = await this.#findUsers(questions);
    for (const question of questions) this.#note(question, users.get(question.address) ?? null);
    return unknown.length > mostAtOnce;
  }

  async #askForHeld(held: readonly HeldAddress[]): Promise<void> {
    const questions = this.#held.listDue(held.filter(({ address }) => !this.#used.has(address.text)));
    if (questions.length === 0) return;
    const found = this.#held.judge(questions, await this.#findUsers(questions));
    for (const question of questions) {
      const mac = found.get(question.address);
      if (mac !== undefined) this.#note(question, mac);
    }
  }

  #note(question: NeighbourQuestion, mac: string | null): void {
    const { address } = question;
    const known = this.#used.get(address);
    const nextAt = this.#clock.now() + againMs;
    if (mac !== null) {
      this.#used.set(address, { question, mac, nextAt, unanswered: 0 });
      if (known?.mac !== mac) this.#onUse(address, mac);
      return;
    }
    if (known === undefined) {
      this.#free.add(address);
      return;
    }
    known.unanswered += 1;
    known.nextAt = nextAt;
    if (known.unanswered < proofs) return;
    this.#used.delete(address);
    this.#onUse(address, null);
  }
}

/** Finds up to which version of VirtualIPs all addresses of this node's seats are on its interfaces: also while more are always being added. */
export class Announcement {
  /** Addresses that are missing, the one that was found so first before the others, to the version at which none of them was wanted. */
  readonly #missingToVersion = new Map<string, string | null>();
  #version: string | null = null;

  /** Takes which addresses are missing as of a version. Answers the version up to which none is; null where that is not known. */
  note(version: string | null, missing: readonly string[]): string | null {
    const now = new Set(missing);
    for (const text of this.#missingToVersion.keys()) if (!now.has(text)) this.#missingToVersion.delete(text);
    for (const text of now) {
      if (!this.#missingToVersion.has(text)) this.#missingToVersion.set(text, this.#version);
    }
    this.#version = version;
    const [oldest = version] = this.#missingToVersion.values();
    return oldest;
  }
}
