import type {
  WritePlace,
  Transaction,
  LocalAddress,
  SourceRoute,
  LocalRoutes,
} from '../../../lib/kernel/port.ts';
import type { FakeFaults } from './kernel-faults.ts';
import type { FakeWatches } from './kernel-watches.ts';
import type { Endpoint } from '../../../lib/net.ts';
import { VipnatError } from '../../../lib/errors.ts';

/** What a FakeKernel has ready for the next write: nothing but a list. */
class FakeWriters {
  /** Where the next write is made quickly. */
  ready: readonly WritePlace[] = [];
  /** Of each transaction that was handed in, whether that had been made ready. */
  readonly wasReady: boolean[] = [];

  keepReady(places: readonly WritePlace[]): Promise<void> {
    this.ready = places;
    return Promise.resolve();
  }

  /** A write is handed in, which uses up what is ready for it. */
  protected use({ family, dialect }: Transaction): void {
    const others = this.ready.filter((place) => place.family !== family || place.dialect !== dialect);
    this.wasReady.push(others.length < this.ready.length);
    this.ready = others;
  }
}

/** An address as a test gives it: with a whole prefix, as virtual ones have, unless it says otherwise. */
type FakeAddress = LocalAddress & { readonly prefixLength?: number };

/** The addresses of a FakeKernel, the routes to them, and its own connections to them. */
export abstract class FakeAddresses extends FakeWriters {
  abstract readonly faults: FakeFaults;
  /** The source towards everywhere else; null without a default route. */
  usualSource: string | null = null;
  /** The interfaces whose own switch for IPv4 forwarding is off. */
  closedDevices: readonly string[] = [];
  protected abstract readonly watches: FakeWatches;
  protected addresses: readonly FakeAddress[] = [];
  /** Of vipnat's, the latest first: as the kernel has them. They outlive the addresses. */
  #sourceRoutes: readonly SourceRoute[] = [];
  #connections: readonly { readonly vip: Endpoint; readonly source: string }[] = [];

  async readLocalRoutes(): Promise<LocalRoutes> {
    await this.faults.meet('netlink');
    const addresses = this.addresses.map((one) => ({
      ...one,
      prefixLength: one.prefixLength ?? (one.family === 'ipv4' ? 32 : 128),
      isSource: !['127.0.0.1', '::1'].includes(one.address),
    }));
    const kernels = addresses
      .filter(({ family }) => family === 'ipv4')
      .map(({ address, device }) => ({ address, device, source: address, isOwn: false }));
    const own = this.#sourceRoutes.map((route) => ({ ...route, isOwn: true }));
    return { addresses, routes: [...own, ...kernels], usualSource: this.usualSource };
  }

  /** Rejects as the kernel does where there is no such interface, or the source is none of this host's addresses. */
  async addSourceRoute(route: SourceRoute): Promise<void> {
    await this.faults.meet('route');
    if (!this.addresses.some(({ address }) => address === route.source))
      throw new VipnatError('NETLINK_FAILED', `${route.source} is no address of this host: EINVAL`);
    if (!this.#sourceRoutes.some((one) => isSame(one, route)))
      this.#sourceRoutes = [route, ...this.#sourceRoutes];
  }

  async removeSourceRoute(route: SourceRoute): Promise<void> {
    await this.faults.meet('route');
    this.#sourceRoutes = this.#sourceRoutes.filter((one) => !isSame(one, route));
  }

  async abortOwnConnections(vip: Endpoint): Promise<number> {
    await this.faults.meet('sock-diag');
    const kept = this.#connections.filter(
      (one) => one.source !== vip.address || one.vip.address !== vip.address || one.vip.port !== vip.port,
    );
    const count = this.#connections.length - kept.length;
    this.#connections = kept;
    return count;
  }

  get sourceRoutes(): readonly SourceRoute[] {
    return this.#sourceRoutes;
  }

  /** What the operator or an agent that was killed left behind. */
  set sourceRoutes(routes: readonly SourceRoute[]) {
    this.#sourceRoutes = routes;
  }

  /** This host's own connections to VIPs: from the source that the kernel took when they were opened. */
  get connections(): readonly { readonly vip: Endpoint; readonly source: string }[] {
    return this.#connections;
  }

  /** A program of this host connects to a VIP that it holds. */
  connect(vip: Endpoint): void {
    const route = this.#sourceRoutes.find(({ address }) => address === vip.address);
    this.#connections = [...this.#connections, { vip, source: route?.source ?? vip.address }];
  }

  addAddress(address: FakeAddress): void {
    this.addresses = [...this.addresses, address];
    this.watches.trigger('addresses');
  }

  removeAddress(address: string): void {
    this.addresses = this.addresses.filter((other) => other.address !== address);
    this.watches.trigger('addresses');
  }

  protected becomeAddresses(other: FakeAddresses): void {
    this.addresses = other.addresses;
    this.#sourceRoutes = other.#sourceRoutes;
    this.#connections = other.#connections;
  }
}

function isSame(one: SourceRoute, other: SourceRoute): boolean {
  return one.address === other.address && one.device === other.device && one.source === other.source;
}
