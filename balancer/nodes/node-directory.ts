/**
 * Where nodes are, as their balancers say in their Leases.
 *
 * Goal: a node that comes, or comes back with another address, is known within seconds.
 * Tension: all nodes renew their Leases every 10 s. If each node watched all of them, a thousand nodes would hear 100,000 renewals a second.
 * Compromise: Leases are listed: at the start, now and then, and when somebody is missed or does not answer.
 */
import { type Address, type Family, parseAddress } from '../../lib/address/address.ts';
import { classifyAddress } from '../../lib/address/scope.ts';
import { backOff } from '../../lib/control/backoff.ts';
import { type Cancel, type Clock } from '../../lib/control/clock.ts';
import { type Random } from '../../lib/control/random.ts';
import { type Lease, parseNodeLease } from '../../lib/services/node-report.ts';

/** What it needs of the world, and its listeners. */
export interface DirectoryPorts {
  readonly clock: Clock;
  readonly random: Random;
  /** Lists the Leases of vipnat's namespace. May reject. */
  readonly listLeases: () => Promise<readonly Lease[]>;
  /** The families that this host has an address of. */
  readonly families: () => ReadonlySet<Family>;
  /** Called when a node's address is another one. */
  readonly onChange: () => void;
  /** Called when a list fails for the first time in a row, and with null when one succeeds again. */
  readonly onProblem: (error: unknown) => void;
}

/** Addresses of nodes change when nodes are replaced. */
const refreshMs = 600_000;

/** Somebody is missed, or a list failed: between two lists. */
const firstRetryMs = 5000;
const maxRetryMs = 300_000;

/** Lists of many nodes about the same event are spread over so long. */
const spreadMs = 2000;

/** Between two lists because nodes do not answer. */
const doubtRestMs = 30_000;

/** From `start` to `stop`. What was said last stays. */
export class NodeDirectory {
  readonly #ports: DirectoryPorts;
  #nodeToAddress: ReadonlyMap<string, Address> = new Map();
  #wanted: ReadonlySet<string> = new Set();
  /** Lists in a row that failed, or after which somebody was missed. */
  #misses = 0;
  #isFailing = false;
  #listedAt = -Infinity;
  #dueAt = Infinity;
  #isListing = false;
  #isStopped = false;
  #cancel: Cancel = () => undefined;

  constructor(ports: DirectoryPorts) {
    this.#ports = ports;
  }

  /** The address of each node that has said it. The same map while nothing has changed. */
  get addresses(): ReadonlyMap<string, Address> {
    return this.#nodeToAddress;
  }

  /** Lists soon. Not to be called twice. */
  start(): void {
    this.#plan(this.#ports.random() * spreadMs);
  }

  /** Lists no more. */
  stop(): void {
    this.#isStopped = true;
    this.#cancel();
  }

  /** Takes whose addresses are needed: lists soon if one is not known. */
  want(nodes: ReadonlySet<string>): void {
    const isNew = [...nodes].some((node) => !this.#wanted.has(node) && !this.#nodeToAddress.has(node));
    this.#wanted = nodes;
    if (!isNew) return;
    this.#misses = 0;
    this.#plan(Math.max(0, this.#listedAt + firstRetryMs - this.#ports.clock.now()));
  }

  /** Lists soon, as a node does not answer: its address may be another one by now. */
  doubt(): void {
    const { clock, random } = this.#ports;
    if (clock.now() - this.#listedAt >= doubtRestMs) this.#plan(random() * spreadMs);
  }

  /** An earlier one counts. */
  #plan(delayMs: number): void {
    const { clock } = this.#ports;
    const dueAt = clock.now() + delayMs;
    if (this.#isStopped || this.#isListing || dueAt >= this.#dueAt) return;
    this.#cancel();
    this.#dueAt = dueAt;
    this.#cancel = clock.schedule(delayMs, () => void this.#list());
  }

  async #list(): Promise<void> {
    const { clock, random, listLeases } = this.#ports;
    this.#isListing = true;
    this.#listedAt = clock.now();
    const [listed] = await Promise.allSettled([listLeases()]);
    [this.#isListing, this.#dueAt] = [false, Infinity];
    if (this.#isStopped) return;
    if (listed.status === 'fulfilled') this.#take(listed.value);
    this.#noteOutcome(listed);
    const isMissing = this.#isFailing || [...this.#wanted].some((node) => !this.#nodeToAddress.has(node));
    this.#misses = isMissing ? this.#misses + 1 : 0;
    const delayMs = isMissing ? backOff(this.#misses - 1, firstRetryMs, maxRetryMs) : refreshMs;
    this.#plan(delayMs * (0.5 + random() / 2));
  }

  #noteOutcome(listed: PromiseSettledResult<unknown>): void {
    const { onProblem } = this.#ports;
    const isFailing = listed.status === 'rejected';
    if (isFailing && !this.#isFailing) onProblem(listed.reason);
    if (!isFailing && this.#isFailing) onProblem(null);
    this.#isFailing = isFailing;
  }

  #take(leases: readonly Lease[]): void {
    const families = this.#ports.families();
    const found = new Map(
      leases.flatMap((lease): [string, Address][] => {
        const report = parseNodeLease(lease)?.report;
        const address = chooseAddress(report?.addresses ?? [], families);
        return report === undefined || address === null ? [] : [[report.node, address]];
      }),
    );
    const isSame =
      found.size === this.#nodeToAddress.size &&
      [...found].every(([node, address]) => this.#nodeToAddress.get(node)?.text === address.text);
    if (isSame) return;
    this.#nodeToAddress = found;
    this.#ports.onChange();
  }
}

/** The first one of a family that this host has, else the first one. Whoever writes a Lease is not trusted to name a host. */
function chooseAddress(texts: readonly string[], families: ReadonlySet<Family>): Address | null {
  const addresses = texts
    .map(parseAddress)
    .filter((one) => one !== null)
    .filter((one) => classifyAddress(one) === 'unicast');
  return addresses.find(({ family }) => families.has(family)) ?? addresses[0] ?? null;
}
