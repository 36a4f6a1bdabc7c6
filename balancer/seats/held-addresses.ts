/**
 * Whether another host has an address, too, that this node holds.
 *
 * Goal: a conflict that comes later is found: DHCP, or a person, gives a Service's address to somebody.
 * Tension: nodes of ours answer, too: two during a takeover, and all of them with kube-proxy in mode ipvs and without strictARP. Each
 * question waits for half a second, and ARP is everybody's time.
 * Compromise: an address is asked for a minute after it came, and then once a minute, 64 in 10 s at most. Three answers in a row, 10 s apart,
 * are a conflict. Who answers for the seat's anchor, or for an address of kube-ipvs0, is a node of ours, and counts as nobody. Only for
 * IPv4: for an IPv6 address of its own the kernel hears no answer.
 */
import { type Clock } from '../../lib/control/clock.ts';
import { type NeighbourQuestion } from '../../lib/kernel/host/neighbours.ts';
import { type PlacedAddress } from './place-address.ts';

/** An address that this node holds. */
export interface HeldAddress extends PlacedAddress {
  /** What a node of ours has, too, that answers for it: who answers for one of these is none of the others. */
  readonly witnesses: readonly string[];
}

/** How often one is asked for. */
const intervalMs = 60_000;

/** How often some are asked for; and the next time after an answer. */
const roundMs = 10_000;

/** Of one round, without witnesses: these are few. */
const mostAtOnce = 64;

/** So many answers in a row are a conflict. */
const proofs = 3;

interface Turn {
  readonly held: HeldAddress;
  nextAt: number;
  answers: number;
}

/** Of one node. It says what to ask for, and judges the answers. */
export class HeldAddresses {
  readonly #clock: Clock;
  readonly #turns = new Map<string, Turn>();
  #roundAt = -Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Takes what this node holds. Answers what is to be asked for now. */
  listDue(held: readonly HeldAddress[]): NeighbourQuestion[] {
    const now = this.#clock.now();
    this.#take(held, now);
    if (now - this.#roundAt < roundMs) return [];
    const due = [...this.#turns.values()].filter(({ nextAt }) => nextAt <= now);
    if (due.length === 0) return [];
    this.#roundAt = now;
    // Whoever has waited longest comes first.
    const chosen = due.sort((one, other) => one.nextAt - other.nextAt).slice(0, mostAtOnce);
    const toQuestion = (address: string, device: string) => ({ family: 'ipv4', address, device }) as const;
    const questions = chosen.flatMap(({ held: { address, device, witnesses } }) =>
      [address.text, ...witnesses].map((text) => toQuestion(text, device)),
    );
    return [...new Map(questions.map((one) => [`${one.address} ${one.device}`, one])).values()];
  }

  /** Takes MACs by addresses that were asked for. Answers those that another host has for certain, with its MAC. */
  judge(
    questions: readonly NeighbourQuestion[],
    users: ReadonlyMap<string, string>,
  ): ReadonlyMap<string, string> {
    const now = this.#clock.now();
    const found = new Map<string, string>();
    for (const { address } of questions) {
      const turn = this.#turns.get(address);
      if (turn === undefined || turn.nextAt > now) continue;
      const mac = users.get(address);
      const isOther = mac !== undefined && !turn.held.witnesses.some((one) => users.get(one) === mac);
      turn.answers = isOther ? turn.answers + 1 : 0;
      turn.nextAt = now + (isOther ? roundMs : intervalMs);
      if (isOther && turn.answers >= proofs) found.set(address, mac);
    }
    return found;
  }

  #take(held: readonly HeldAddress[], now: number): void {
    const known = new Map(held.map((one) => [one.address.text, one]));
    for (const text of this.#turns.keys()) if (!known.has(text)) this.#turns.delete(text);
    for (const [text, one] of known) {
      if (!this.#turns.has(text)) this.#turns.set(text, { held: one, nextAt: now + intervalMs, answers: 0 });
    }
  }
}
