import { type Cancel, type Clock } from '../../lib/control/clock.ts';

/** What it needs of the world. */
export interface WaysPorts {
  readonly clock: Clock;
  /** Which of these addresses packets reach by a router, see `findRouted`. May reject. */
  readonly findRouted: (addresses: readonly string[]) => Promise<readonly string[]>;
}

/** Routes to pods' networks come and go with nodes, and nobody tells. */
const paceMs = 60_000;

/** By which ways packets reach endpoints on other nodes. What was not asked for yet counts as reached by no router. */
export class RelayWays {
  readonly #ports: WaysPorts;
  readonly #onChange: (services: readonly string[]) => void;
  readonly #serviceToAddresses = new Map<string, readonly string[]>();
  #routed: ReadonlySet<string> = new Set();
  #asked: ReadonlySet<string> = new Set();
  #isAsking = false;
  #isStopped = false;
  #cancel: Cancel = () => undefined;

  /** `onChange` is called with the Services whose addresses are reached otherwise than before. */
  constructor(ports: WaysPorts, onChange: (services: readonly string[]) => void) {
    this.#ports = ports;
    this.#onChange = onChange;
  }

  /** The addresses that are reached by a router. */
  get routed(): ReadonlySet<string> {
    return this.#routed;
  }

  /** Takes the addresses that a Service asks about: none any more where there are none. Returns at once. */
  watch(service: string, addresses: readonly string[]): void {
    if (addresses.length === 0) this.#serviceToAddresses.delete(service);
    else this.#serviceToAddresses.set(service, addresses);
    if (addresses.some((address) => !this.#asked.has(address))) this.#plan(0);
  }

  /** Asks no more. */
  stop(): void {
    this.#isStopped = true;
    this.#cancel();
  }

  #plan(delayMs: number): void {
    if (this.#isAsking || this.#isStopped) return;
    this.#cancel();
    this.#cancel = this.#ports.clock.schedule(delayMs, () => void this.#ask());
  }

  async #ask(): Promise<void> {
    this.#isAsking = true;
    const asked = new Set([...this.#serviceToAddresses.values()].flat());
    const [found] = await Promise.allSettled([this.#ports.findRouted([...asked])]);
    this.#isAsking = false;
    this.#asked = asked;
    const all = [...this.#serviceToAddresses];
    if (found.status === 'fulfilled') this.#take(new Set(found.value), all);
    const isComplete = all.every(([, addresses]) => addresses.every((address) => asked.has(address)));
    if (all.length > 0) this.#plan(isComplete ? paceMs : 0);
  }

  #take(routed: ReadonlySet<string>, all: readonly (readonly [string, readonly string[]])[]): void {
    const before = this.#routed;
    this.#routed = routed;
    const isOther = (address: string) => before.has(address) !== routed.has(address);
    const services = all.filter(([, addresses]) => addresses.some(isOther)).map(([service]) => service);
    if (services.length > 0 && !this.#isStopped) this.#onChange(services);
  }
}
