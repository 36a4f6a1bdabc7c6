/**
 * Whether another host has an address, too, that this node holds.
 *
 * Goal: a conflict that comes later is found: DHCP, or a person, gives a Service's address to somebody.
 * Tension: nodes of ours answer, too: two during a takeover, and all of them with kube-proxy in mode ipvs and without strictARP. Each
 * question waits for half a second, and ARP is everybody's time.
 * Compromise: an address is asked for a minute after it came, and then once a minute, 64 in 10 s at most. Three answers in a row, 10 s apart,
 * are a conflict. Who answers for the seat's anchor is a node of ours, and counts as nobody. While anybody answers for an address of kube-ipvs0,
 * all nodes of ours answer for all addresses, and of several answers the kernel knows the first: then no answer says anything. Only for IPv4: for
 * an IPv6 address of its own the kernel hears no answer.
 */
import { type Clock } from '../../lib/control/clock.ts';
import { type NeighbourQuestion } from '../../lib/kernel/host/neighbours.ts';
import { type PlacedAddress } from './place-address.ts';

/** An address that this node holds. */
export interface HeldAddress extends PlacedAddress {
  /** What a node of ours has, too, that takes the address over. */
  readonly anchor: string;
  /** What each node of ours has that answers for all addresses of Services. Absent where none does. */
  readonly shared?: string | undefined;
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
  /** As it is held now: a pool's seats, and kube-proxy's ClusterIPs, come and go. */
  held: HeldAddress;
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
    const questions = chosen.flatMap(({ held: { address, device, anchor, shared } }) =>
      [address.text, anchor, ...(shared === undefined ? [] : [shared])].map((text) =>
        toQuestion(text, device),
      ),
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
      const isOther = mac !== undefined && !isOurs(turn.held, mac, users);
      turn.answers = isOther ? turn.answers + 1 : 0;
      turn.nextAt = now + (isOther ? roundMs : intervalMs);
      if (isOther && turn.answers >= proofs) found.set(address, mac);
    }
    return found;
  }

  #take(held: readonly HeldAddress[], now: number): void {
    const known = new Map(held.map((one) => [one.address.text, one]));
    for (const text of this.#turns.keys()) if (!known.has(text)) this.#turns.delete(text);
    for (const [text, held] of known) {
      const turn = this.#turns.get(text);
      if (turn === undefined) this.#turns.set(text, { held, nextAt: now + intervalMs, answers: 0 });
      else turn.held = held;
    }
  }
}

/** Whether who answers for an address may be a node of ours. */
function isOurs({ anchor, shared }: HeldAddress, mac: string, users: ReadonlyMap<string, string>): boolean {
  return users.get(anchor) === mac || (shared !== undefined && users.has(shared));
}
