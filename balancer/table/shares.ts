import { type Balances, type PortBalance, nameEnd, identifyPort } from '../services/backends.ts';
import {
  type Tally,
  toFlows,
  type CleanerPorts,
  FlowCleaner,
  Drains,
  createStrayFilter,
  listGoneFlows,
  listClosedFlows,
  takesNone,
  listEarlyFlows,
} from './stale-flows.ts';
import { usualWeight } from '../../lib/api/endpoints.ts';
import { describeFlow } from '../../lib/kernel/conntrack.ts';
import { shareByCounts, leastChange } from '../../lib/dialect.ts';

/** Between two counts, and so between two writes of one Service's shares at least. */
const paceMs = 5000;

/** Endpoints of all ports that are looked at after one count: 20 ms. At least one Service is. */
const maxExamined = 20_000;

/** So many of them get other shares after one count: a port of 100 endpoints has 1,024 slots, which take 4 ms. At least one Service does. */
const maxChanged = 100;

/** So many counts in a row may fail: then each endpoint gets its part by weight, as what was known is too old. */
const maxFailures = 3;

interface CountedEnd {
  readonly name: string;
  readonly weight: number;
  count: number;
}

interface CountedPort {
  readonly ends: readonly CountedEnd[];
  /** Texts of flows: one for each address and end. */
  readonly textToEnd: ReadonlyMap<string, CountedEnd>;
  /** Null while nothing was counted. */
  parts: Parts | null;
}

type Parts = ReadonlyMap<string, number>;

interface CountedService {
  readonly ports: ReadonlyMap<string, CountedPort>;
  /** Whether it is as it was when the count in progress began. */
  isWhole: boolean;
}

/**
 * What new connections each endpoint gets with the method `lc`: by the open ones that this node sends to it (docs/adr/0028).
 * Of all Services with this method that have a choice on this node. What it knows of a Service goes with it.
 *
 * Goal: a pod that came back gets its part of the connections that last.
 * Tension: counting reads the kernel's whole table, and each change of shares is a write.
 * Compromise: the pass of the flow cleaner counts, every five seconds at most, and rests in proportion to what it took. After a count few
 * Services get other shares, the others after the next ones, in turn. Each Service's shares are its own: no other Service's sets change.
 */
export class ConnectionShares {
  readonly #clock: Pick<CleanerPorts['clock'], 'now'>;
  readonly #onChange: (services: readonly string[]) => void;
  /** The next one to be looked at is the first. */
  readonly #services = new Map<string, CountedService>();
  #beganAt = -Infinity;
  #unfinished = 0;

  /** `onChange` is called when some Services are to get other shares: `share` has them. */
  constructor(clock: Pick<CleanerPorts['clock'], 'now'>, onChange: (services: readonly string[]) => void) {
    this.#clock = clock;
    this.#onChange = onChange;
  }

  get isAny(): boolean {
    return this.#services.size > 0;
  }

  /** Takes how the kernel balances a Service from now on. Endpoints that stay keep their parts. */
  take(service: string, balances: readonly PortBalance[]): void {
    const before = this.#services.get(service);
    const ports = new Map(
      balances
        .filter(({ method, isHere, backends }) => method === 'lc' && isHere && backends.length > 1)
        .map((balance) => {
          const name = namePort(balance);
          return [name, createPort(balance, before?.ports.get(name)?.parts ?? null)];
        }),
    );
    if (ports.size === 0) this.#services.delete(service);
    else this.#services.set(service, { ports, isWhole: false });
  }

  /** The same balance with the shares of this moment. */
  share(balance: PortBalance): PortBalance {
    if (balance.method !== 'lc') return balance;
    const parts = this.#services.get(balance.service)?.ports.get(namePort(balance))?.parts ?? null;
    return parts === null ? balance : { ...balance, parts };
  }

  /** Begins to count; null where nothing is to be counted, or was a moment ago. */
  begin(): Tally | null {
    const now = this.#clock.now();
    if (!this.isAny || now - this.#beganAt < paceMs) return null;
    this.#beganAt = now;
    if (this.#unfinished >= maxFailures) this.#settle(() => 'even');
    this.#unfinished += 1;
    const counted = [...this.#services.values()];
    for (const service of counted) service.isWhole = true;
    const ports = counted.flatMap((service) => [...service.ports.values()]);
    const textToEnd = new Map(ports.flatMap((port) => [...port.textToEnd]));
    for (const end of textToEnd.values()) end.count = 0;
    return {
      see: (text, { isOpen }) => {
        const end = textToEnd.get(text);
        if (end !== undefined && isOpen) end.count += 1;
      },
      end: () => {
        this.#unfinished = 0;
        this.#settle(({ isWhole }) => (isWhole ? 'counted' : 'as before'));
      },
    };
  }

  #settle(choose: (service: CountedService) => 'counted' | 'even' | 'as before'): void {
    const changed: string[] = [];
    let [examined, other] = [0, 0];
    for (const [name, service] of [...this.#services]) {
      if (examined >= maxExamined || other >= maxChanged) break;
      this.#services.delete(name);
      this.#services.set(name, service);
      const choice = choose(service);
      if (choice === 'as before') continue;
      const before = other;
      for (const port of service.ports.values()) {
        const parts = chooseParts(port, choice);
        examined += port.ends.length;
        if (parts !== port.parts) other += port.ends.length;
        port.parts = parts;
      }
      if (other > before) changed.push(name);
    }
    if (changed.length > 0) this.#onChange(changed);
  }
}

function createPort(balance: PortBalance, before: Parts | null): CountedPort {
  const ends: CountedEnd[] = [];
  const textToEnd = new Map<string, CountedEnd>();
  for (const backend of balance.backends) {
    const end = { name: nameEnd(backend), weight: backend.weight ?? usualWeight, count: 0 };
    ends.push(end);
    for (const flow of toFlows(balance, [backend])) textToEnd.set(describeFlow(flow), end);
  }
  const present = new Set(ends.map(({ name }) => name));
  const parts = before === null ? null : new Map([...before].filter(([name]) => present.has(name)));
  return { ends, textToEnd, parts };
}

/** The same object where nothing is worth a change. */
function chooseParts({ ends, parts: before }: CountedPort, choice: 'counted' | 'even'): Parts | null {
  const known = ends.map(({ name }) => before?.get(name) ?? 1);
  const isUneven = known.some((part) => part !== 1);
  const wanted = choice === 'even' ? ends.map(() => 1) : shareByCounts(ends, isUneven);
  const isEnd = isUneven && wanted.every((part) => part === 1);
  const isSmall = wanted.every((part, at) => Math.abs(part - (known[at] ?? 1)) < leastChange);
  if (before !== null && isSmall && !isEnd) return before;
  return new Map(ends.map(({ name }, at) => [name, wanted[at] ?? 1]));
}

function namePort(balance: PortBalance): string {
  return `${balance.family} ${identifyPort(balance)}`;
}

/** So soon an endpoint that lives has answered who came last: what is unanswered then stays so. */
const answerMs = 200;

interface SettlePorts extends Omit<CleanerPorts, 'counters'> {
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
  readonly balances: ReadonlyMap<string, Balances> = this.#serviceToBalances;
  readonly #clock: CleanerPorts['clock'];
  readonly #waits = new Set<() => void>();
  readonly #cleaner: FlowCleaner;
  readonly #drains: Drains;
  /** The shares of this moment, where open connections decide about them. */
  readonly shares: ConnectionShares;

  constructor(ports: SettlePorts) {
    this.#clock = ports.clock;
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
    this.shares = new ConnectionShares(ports.clock, ports.onShares);
    this.#cleaner = new FlowCleaner({ ...ports, counters: [this.#drains, this.shares] }, () =>
      createStrayFilter(this.#serviceToBalances.values(), ports.listFormerPorts()),
    );
  }

  /** See `NodeReport`: all of them. The same array while nothing has happened to them. */
  get draining(): Drains['list'] {
    return this.#drains.list;
  }

  /** Those of them that have no connection, whoever it is of. */
  get unused(): ReturnType<Drains['listUnused']> {
    return this.#drains.listUnused();
  }

  /** Takes what the kernel has from now on. kube-proxy keeps the open connections of Services that are no longer balanced here. */
  settle(changes: ReadonlyMap<string, Balances>, isLeft: (service: string) => boolean): void {
    for (const [service, balances] of changes) {
      const before = this.#serviceToBalances.get(service) ?? [];
      this.#drains.take(service, balances);
      this.shares.take(service, balances);
      // First those that are back: what is gone takes no new connection either.
      this.#cleaner.keep([...listGoneFlows(balances, before), ...listClosedFlows(balances, before)]);
      if (!isLeft(service)) this.#cleaner.add(listGoneFlows(before, balances));
      this.#cleaner.add(listEarlyFlows(before, balances), 'which was not served yet');
      this.#closeSoon(service, listClosedFlows(before, balances));
      if (balances.length === 0) this.#serviceToBalances.delete(service);
      else this.#serviceToBalances.set(service, balances);
    }
    if (this.shares.isAny) this.#cleaner.count();
  }

  /** To be called after a time in which the tables did not count: endpoints may have gone, and packets went where they asked. */
  sweep(): void {
    this.#cleaner.sweep();
  }

  async stop(): Promise<void> {
    this.#drains.stop();
    for (const cancel of this.#waits) cancel();
    await this.#cleaner.stop();
  }

  /** Those that take no new connection then, too. */
  #closeSoon(service: string, flows: ReturnType<typeof listClosedFlows>): void {
    if (flows.length === 0) return;
    const cancel = this.#clock.schedule(answerMs, () => {
      this.#waits.delete(cancel);
      const closed = listClosedFlows([], this.#serviceToBalances.get(service) ?? []);
      const texts = new Set(closed.map(describeFlow));
      this.#cleaner.add(
        flows.filter((flow) => texts.has(describeFlow(flow))),
        takesNone,
      );
    });
    this.#waits.add(cancel);
  }
}
