import { type BalancerPorts } from './ports.ts';

/** The addresses of this host that are no Services'. */
export class OwnAddresses {
  readonly #read: BalancerPorts['readAddresses'];
  #known: ReadonlySet<string> = new Set();

  constructor(read: BalancerPorts['readAddresses']) {
    this.#read = read;
  }

  /** As they were when they were last looked at. */
  get known(): ReadonlySet<string> {
    return this.#known;
  }

  /** Looks at them; answers whether they are others than before. Those of Services come and go. */
  async look(vips: { has(address: string): boolean }): Promise<boolean> {
    const found = (await this.#read()).map(({ address }) => address);
    const own = new Set(found.filter((address) => !vips.has(address)));
    const isSame = own.size === this.#known.size && [...own].every((address) => this.#known.has(address));
    this.#known = own;
    return !isSame;
  }
}
