import { type Clock } from '../../lib/control/clock.ts';
import { type DrainingEndpoint } from '../../lib/services/node-report.ts';
import { ConnectionShares } from './connection-shares.ts';
import { Drains, type Tally } from './drains.ts';
import { type CleanerPorts, FlowCleaner, silentNode } from './flow-cleaner.ts';
import { createStrayFilter, listEarlyFlows, listGoneFlows, listSilentFlows } from './gone-flows.ts';
import { type Balances } from './programmer.ts';
import { type PortBalance } from '../decide/balanced-service.ts';

/** What it needs of the world. */
export interface SettlePorts extends Omit<CleanerPorts, 'counter'> {
  readonly clock: Clock;
  /** Called when `draining` has changed. */
  readonly onDrains: () => void;
  /** Called when Services are to get other shares, see `share`. */
  readonly onShares: (services: readonly string[]) => void;
  /** The ports that a life before this one has balanced: see createStrayFilter. Without those that are kube-proxy's now. */
  readonly listFormerPorts: () => ReadonlySet<string>;
}

/** How the kernel balances each Service, and what follows from that for connections that are open. */
export class SettledBalances {
  readonly #serviceToBalances = new Map<string, Balances>();
  readonly #cleaner: FlowCleaner;
  readonly #drains: Drains;
  readonly #shares: ConnectionShares;

  constructor(ports: SettlePorts) {
    this.#drains = new Drains({
      clock: ports.clock,
      cut: (flows) => {
        this.#cleaner.add(flows, 'whose drain timeout is over');
      },
      keep: (flows) => {
        this.#cleaner.keep(flows);
      },
      onChange: () => {
        this.#cleaner.count();
        ports.onDrains();
      },
    });
    this.#shares = new ConnectionShares({ clock: ports.clock, onChange: ports.onShares });
    const counter = joinCounters([this.#drains, this.#shares]);
    this.#cleaner = new FlowCleaner({ ...ports, counter }, () =>
      createStrayFilter(this.#serviceToBalances.values(), ports.listFormerPorts()),
    );
  }

  /** How many Services are balanced. */
  get size(): number {
    return this.#serviceToBalances.size;
  }

  /** See `NodeReport`: all of them. The same array while nothing has happened to them. */
  get draining(): readonly DrainingEndpoint[] {
    return this.#drains.list;
  }

  /** The same balance with the shares of this moment, where open connections decide about them. */
  share(balance: PortBalance): PortBalance {
    return this.#shares.share(balance);
  }

  /** Whether a Service is balanced. */
  has(service: string): boolean {
    return this.#serviceToBalances.has(service);
  }

  /** Takes what the kernel has from now on. Of Services that are left to kube-proxy, that one goes on with open connections. */
  settle(changes: ReadonlyMap<string, Balances>, isLeft: (service: string) => boolean): void {
    for (const [service, balances] of changes) {
      const before = this.#serviceToBalances.get(service) ?? [];
      this.#drains.take(service, balances);
      this.#shares.take(service, balances);
      if (!isLeft(service)) this.#cleaner.add(listGoneFlows(before, balances));
      this.#cleaner.add(listSilentFlows(before, balances), silentNode);
      this.#cleaner.add(listEarlyFlows(before, balances), 'which was not served yet');
      this.#cleaner.keep(listGoneFlows(balances, before));
      if (balances.length === 0) this.#serviceToBalances.delete(service);
      else this.#serviceToBalances.set(service, balances);
    }
    if (this.#shares.isAny) this.#cleaner.count();
  }

  /** To be called after a time in which the tables did not count: endpoints may have gone, and packets went where they asked. */
  sweep(): void {
    this.#cleaner.sweep();
  }

  /** Ends what is under way. */
  async stop(): Promise<void> {
    this.#drains.stop();
    await this.#cleaner.stop();
  }
}

type Counter = CleanerPorts['counter'];

/** One walk counts for all of them. */
function joinCounters(counters: readonly Counter[]): Counter {
  return {
    get isAny() {
      return counters.some(({ isAny }) => isAny);
    },
    begin: () => joinTallies(counters.map((counter) => counter.begin()).filter((tally) => tally !== null)),
  };
}

function joinTallies(tallies: readonly Tally[]): Tally | null {
  if (tallies.length === 0) return null;
  return {
    see: (text, flow) => {
      for (const tally of tallies) tally.see(text, flow);
    },
    end: () => {
      for (const tally of tallies) tally.end();
    },
  };
}
