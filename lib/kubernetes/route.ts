import { type Endpoint } from '../address/endpoint.ts';
import { type ApiAccess, type ReadAccess } from './access.ts';
import {
  type ApiServer,
  formatServer,
  isUnhealthy,
  listApiServers,
  type KnownApiservers,
} from './servers.ts';

/** With which credentials to ask, and where. */
export interface Connection {
  readonly access: ApiAccess;
  readonly server: ApiServer;
}

/** Which apiserver is asked: the best until it fails, then the next. */
export class ApiRoute {
  readonly #readAccess: ReadAccess;
  readonly #vips: readonly Endpoint[];
  #known: KnownApiservers | null;
  /** Those that failed since somebody last answered, by text. */
  readonly #failed = new Set<string>();
  /** Those that were there to ask at the last `choose`. */
  #servers: readonly ApiServer[] = [];
  #unwell: ReadonlySet<string> = new Set();

  /** With null for the apiservers, nobody is asked but whom the credentials name. */
  constructor(
    readAccess: ReadAccess,
    vips: readonly Endpoint[],
    known: KnownApiservers | null = nobodyKnown,
  ) {
    this.#readAccess = readAccess;
    this.#vips = vips;
    this.#known = known;
  }

  /** Addresses that no connection may go to. */
  get forbidden(): ReadonlySet<string> {
    return new Set(this.#vips.map(({ address }) => address));
  }

  /** How many there were to ask at the last `choose`. */
  get count(): number {
    return Math.max(1, this.#servers.length);
  }

  /** Sets the servers to ask from now on. Returns whether they differ from those before. */
  setServers(known: KnownApiservers): boolean {
    const before = describeKnown(this.#known);
    this.#known = known;
    return describeKnown(known) !== before;
  }

  /**
   * Whom to ask next: the best that has not failed, those that are down last; the best again after all have failed.
   * @throws VipnatError API_CREDENTIALS_INVALID
   */
  async choose(): Promise<Connection> {
    const access = await this.#readAccess();
    const { host, port } = access;
    const listed = this.#known === null ? [{ host, port }] : listApiServers(access, this.#known, this.#vips);
    const servers = [
      ...listed.filter((one) => !this.#isUnwell(one)),
      ...listed.filter((one) => this.#isUnwell(one)),
    ];
    this.#servers = servers;
    const untried = servers.filter((server) => !this.#failed.has(formatServer(server)));
    if (untried.length === 0) this.#failed.clear();
    const [server] = [...untried, ...servers];
    // Never empty: without any other there is the one on this host.
    return { access, server: server ?? { host: '127.0.0.1', port: access.port } };
  }

  /** Who is down by our probes from now on, as text, see `formatEndpoint`. */
  setUnhealthy(unwell: ReadonlySet<string>): void {
    this.#unwell = unwell;
  }

  /** Whether it is down, and another may be asked that is not: what it says may be of long ago. */
  isWorseThanOthers(server: ApiServer): boolean {
    return this.#isUnwell(server) && this.#servers.some((one) => !this.#isUnwell(one));
  }

  /** It did not do. */
  markFailed(server: ApiServer): void {
    this.#failed.add(formatServer(server));
  }

  /** The next to be asked is the best again: it may be back. */
  resetFailures(): void {
    this.#failed.clear();
  }

  #isUnwell(server: ApiServer): boolean {
    return this.#known !== null && isUnhealthy(server, this.#known, this.#unwell);
  }
}

const nobodyKnown: KnownApiservers = { endpoints: [], localAddresses: new Set() };

function describeKnown(known: KnownApiservers | null): string {
  const { endpoints, localAddresses, own = [] } = known ?? nobodyKnown;
  return [...endpoints, ...own]
    .map(({ address, port }) => `${address} ${port} ${String(localAddresses.has(address))}`)
    .sort()
    .join();
}
