import type { NeighbourQuestion } from '../../lib/kernel/addresses.ts';
import type { Clock } from '../../lib/clock.ts';
import type { PlacedAddress } from './plan.ts';

/**
 * Whether an address that this node holds, or is about to hold, is another host's.
 *
 * Goal: no Service gets an address that somebody uses already.
 * Tension: when an address moves from one node to the other, both may have it for a moment, and each is "another host".
 * Compromise: only who holds a seat asks, and only for an address that was not in its configuration before. Before any node was known to hold
 * it, an address is in no other configuration. Whoever takes a seat over asks for no other address. An address that was found in use is asked for again until nobody answers twice. What is held is asked for now
 * and then: see below.
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
  /** Whether this node held it when it was found: the controller decides whether a vipnat node answers, and until then it stays. */
  readonly isHeld: boolean;
  readonly question: NeighbourQuestion;
  readonly mac: string;
  nextAt: number;
  unanswered: number;
}

/**
 * Whether another host has an address, too, that this node holds.
 *
 * Goal: a conflict that comes later is found: DHCP, or a person, gives a Service's address to another host.
 * Tension: vipnat's nodes answer, too: two during a takeover, and all of them with kube-proxy in mode ipvs and without strictARP. Each
 * question waits for half a second, and ARP is a shared resource.
 * Compromise: an address is asked for a minute after it came, and then once a minute, 64 in 10 s at most. Three answers in a row, 10 s apart,
 * are a conflict. A host that answers for the seat's anchor is a vipnat node, and does not count. Switches of the kernel (arp_ignore,
 * arp_filter) hide anchors. So the node says what it finds, and holds the address on: the controller knows who else has the seat. While a host answers for an address of
 * kube-ipvs0, all vipnat nodes answer for all addresses, and of several answers the kernel uses the first: then no answer proves anything. Only
 * for IPv4: for an IPv6 address of its own the kernel processes no answer.
 */

/** An address that this node holds. */
export interface HeldAddress extends PlacedAddress {
  /** What a vipnat node has, too, that takes the address over. */
  readonly anchor: string;
  /** What each vipnat node has that answers for all addresses of Services. Absent where none does. */
  readonly shared?: string | undefined;
}

/** How often one is asked for. */
const intervalMs = 60_000;

/** How often some are asked for; and the next time after an answer. */
const roundMs = 10_000;

/** Of one round, without anchors and shared addresses: these are few. */
const mostOfRound = 64;

/** So many answers in a row are a conflict. */
const heldProofs = 3;

interface Turn {
  /** As it is held now: a pool's seats, and kube-proxy's ClusterIPs, come and go. */
  held: HeldAddress;
  nextAt: number;
  answers: number;
}

/** Remembers what was asked for, and what came of it. */
export class AddressConflicts {
  readonly #findUsers: FindAddressUsers;
  readonly #clock: Clock;
  readonly #onUse: (address: string, mac: string | null) => void;
  readonly #turns = new Map<string, Turn>();
  #roundAt = -Infinity;
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
    this.#onUse = onUse;
  }

  /** Addresses that another host has; sorted. */
  get used(): readonly string[] {
    return [...this.#used.keys()].sort();
  }

  /** Whether an address may be held: it is not in use, and was asked for if it had to be. */
  mayHold({ address }: PlacedAddress, isToAsk: boolean): boolean {
    if (this.#used.get(address.text)?.isHeld === false) return false;
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
    for (const question of questions) this.#note(question, users.get(question.address) ?? null, false);
    return unknown.length > mostAtOnce;
  }

  async #askForHeld(held: readonly HeldAddress[]): Promise<void> {
    const questions = this.#listDueHeld(held.filter(({ address }) => !this.#used.has(address.text)));
    if (questions.length === 0) return;
    const users = await this.#findUsers(questions);
    const now = this.#clock.now();
    for (const question of questions) {
      const [turn, mac] = [this.#turns.get(question.address), users.get(question.address)];
      if (turn === undefined || turn.nextAt > now) continue;
      const isOther = mac !== undefined && !isOwn(turn.held, mac, users);
      turn.answers = isOther ? turn.answers + 1 : 0;
      turn.nextAt = now + (isOther ? roundMs : intervalMs);
      if (isOther && turn.answers >= heldProofs) this.#note(question, mac, true);
    }
  }

  /** Takes what this node holds. Answers what is to be asked for now. */
  #listDueHeld(held: readonly HeldAddress[]): NeighbourQuestion[] {
    const now = this.#clock.now();
    this.#takeHeld(held, now);
    if (now - this.#roundAt < roundMs) return [];
    const due = [...this.#turns.values()].filter(({ nextAt }) => nextAt <= now);
    if (due.length === 0) return [];
    this.#roundAt = now;
    // Whoever has waited longest comes first.
    const chosen = due.sort((one, other) => one.nextAt - other.nextAt).slice(0, mostOfRound);
    const questions = chosen.flatMap(({ held: { address: own, device, anchor, shared } }) => {
      const texts = [own.text, anchor, ...(shared === undefined ? [] : [shared])];
      return texts.map((address) => ({ family: 'ipv4', address, device }) as const);
    });
    return [...new Map(questions.map((one) => [`${one.address} ${one.device}`, one])).values()];
  }

  #takeHeld(held: readonly HeldAddress[], now: number): void {
    const known = new Map(held.map((one) => [one.address.text, one]));
    for (const text of this.#turns.keys()) if (!known.has(text)) this.#turns.delete(text);
    for (const [text, held] of known) {
      const turn = this.#turns.get(text);
      if (turn === undefined) this.#turns.set(text, { held, nextAt: now + intervalMs, answers: 0 });
      else turn.held = held;
    }
  }

  #note(question: NeighbourQuestion, mac: string | null, wasHeld: boolean): void {
    const { address } = question;
    const known = this.#used.get(address);
    const nextAt = this.#clock.now() + againMs;
    if (mac !== null) {
      this.#used.set(address, { isHeld: known?.isHeld ?? wasHeld, question, mac, nextAt, unanswered: 0 });
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

/** Whether the host that answers for an address may be a vipnat node. */
function isOwn({ anchor, shared }: HeldAddress, mac: string, users: ReadonlyMap<string, string>): boolean {
  return users.get(anchor) === mac || (shared !== undefined && users.has(shared));
}
