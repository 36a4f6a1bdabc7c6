/**
 * The endpoints that take no new connection, and how many open ones they have.
 *
 * Goal: people see who drains, and connections end when their time is over.
 * Tension: EndpointSlices do not say since when an endpoint ends.
 * Compromise: this process counts from when its kernel sent no new connection there. A process that starts counts anew: a connection
 * that lives longer is less harm than one that ends early, and a pod ends when its own grace period is over anyway.
 */
import { type Cancel, type Clock } from '../../lib/control/clock.ts';
import { type BalancedFlow, type SeenFlow } from '../../lib/kernel/port.ts';
import { describeFlow } from '../../lib/kernel/real/describe-flow.ts';
import { type DrainingEndpoint } from '../../lib/services/node-report.ts';
import { toFlows } from './gone-flows.ts';
import { type PortBalance } from '../decide/balanced-service.ts';

/** A timer of Node.js takes 24 days at most. */
const maxWaitMs = 3_600_000;

interface Drain {
  readonly service: string;
  readonly address: string;
  readonly sinceMs: number;
  readonly since: string;
  readonly drainMs: number | null;
  readonly flows: readonly BalancedFlow[];
  isCut: boolean;
  connections: number | null;
}

/** What drains needs of the world. */
export interface DrainPorts {
  readonly clock: Clock;
  /** Ends connections whose time is over. */
  readonly cut: (flows: readonly BalancedFlow[]) => void;
  /** Has connections stay that were to be cut. */
  readonly keep: (flows: readonly BalancedFlow[]) => void;
  /** Called when what is to be said has changed. */
  readonly onChange: () => void;
}

/** How many connections a walk through the kernel's table has seen. */
export interface Tally {
  see(text: string, flow: SeenFlow): void;
  /** The walk has come to its end. */
  end(): void;
}

/** Endpoints of all Services that drain on this node. */
export class Drains {
  readonly #ports: DrainPorts;
  readonly #serviceToDrains = new Map<string, ReadonlyMap<string, Drain>>();
  #said: readonly DrainingEndpoint[] | null = null;
  #cancel: Cancel = () => undefined;
  #dueAt = Infinity;
  #isStopped = false;

  constructor(ports: DrainPorts) {
    this.#ports = ports;
  }

  /** Whether any endpoint drains. */
  get isAny(): boolean {
    return this.#serviceToDrains.size > 0;
  }

  /** All of them, those with the most connections first. The same array while nothing has happened to them. */
  get list(): readonly DrainingEndpoint[] {
    return (this.#said ??= this.#describe());
  }

  #describe(): readonly DrainingEndpoint[] {
    return this.#all()
      .map(({ service, address, since, connections }) => ({ service, endpoint: address, since, connections }))
      .sort((one, other) => (other.connections ?? 0) - (one.connections ?? 0));
  }

  /** Takes how the kernel balances a Service from now on. */
  take(service: string, balances: readonly PortBalance[]): void {
    const before = this.#serviceToDrains.get(service) ?? none;
    const now = this.#list(service, balances, before);
    if (before.size + now.size === 0) return;
    if (now.size === 0) this.#serviceToDrains.delete(service);
    else this.#serviceToDrains.set(service, now);
    // One that serves again keeps what is not cut yet.
    for (const [address, { flows }] of before) if (!now.has(address)) this.#ports.keep(flows);
    this.#cutDue(now.values());
    this.#change();
  }

  /** Begins to count; null where nothing drains. */
  begin(): Tally | null {
    if (!this.isAny) return null;
    const textToDrain = new Map<string, Drain>();
    for (const drain of this.#all())
      for (const flow of drain.flows) textToDrain.set(describeFlow(flow), drain);
    const counts = new Map<Drain, number>();
    return {
      see: (text, { isOpen }) => {
        const drain = textToDrain.get(text);
        if (drain !== undefined && isOpen) counts.set(drain, (counts.get(drain) ?? 0) + 1);
      },
      end: () => {
        this.#settle(new Set(textToDrain.values()), counts);
      },
    };
  }

  /** Cuts nothing any more. */
  stop(): void {
    this.#isStopped = true;
    this.#cancel();
  }

  #settle(seen: ReadonlySet<Drain>, counts: ReadonlyMap<Drain, number>): void {
    let isOther = false;
    for (const drain of seen) {
      const count = counts.get(drain) ?? 0;
      isOther ||= drain.connections !== count;
      drain.connections = count;
    }
    if (isOther) this.#change();
  }

  /** Those that drained before go on: their time does not begin anew. */
  #list(
    service: string,
    balances: readonly PortBalance[],
    before: ReadonlyMap<string, Drain>,
  ): ReadonlyMap<string, Drain> {
    const { clock } = this.#ports;
    const drains = new Map<string, Drain>();
    for (const balance of balances.filter(({ protocol }) => protocol === 'TCP')) {
      for (const end of balance.draining) {
        const { address } = end;
        const { isCut, sinceMs, since, connections, drainMs } = before.get(address) ?? {
          ...{ isCut: false, sinceMs: clock.now(), since: clock.date().toISOString() },
          ...{ connections: null, drainMs: null },
        };
        const flows = [...(drains.get(address)?.flows ?? []), ...toFlows(balance, [end])];
        drains.set(address, {
          ...{ service, address, sinceMs, since, connections, flows, drainMs: balance.drainMs },
          // The owner may change the time while it runs.
          isCut: isCut && drainMs === balance.drainMs,
        });
      }
    }
    return drains;
  }

  #change(): void {
    this.#said = null;
    this.#ports.onChange();
  }

  #all(): Drain[] {
    return [...this.#serviceToDrains.values()].flatMap((drains) => [...drains.values()]);
  }

  /** Cuts those whose time is over, and comes back for the others. */
  #cutDue(drains: Iterable<Drain>): void {
    const { clock, cut } = this.#ports;
    const now = clock.now();
    for (const drain of drains) {
      if (drain.drainMs === null || drain.isCut) continue;
      const dueAt = drain.sinceMs + drain.drainMs;
      if (dueAt > now) {
        this.#plan(Math.min(dueAt, now + maxWaitMs));
        continue;
      }
      drain.isCut = true;
      cut(drain.flows);
    }
  }

  #plan(dueAt: number): void {
    if (this.#isStopped || this.#dueAt <= dueAt) return;
    this.#cancel();
    this.#dueAt = dueAt;
    this.#cancel = this.#ports.clock.schedule(dueAt - this.#ports.clock.now(), () => {
      this.#dueAt = Infinity;
      this.#cutDue(this.#all());
    });
  }
}

const none: ReadonlyMap<string, Drain> = new Map();
