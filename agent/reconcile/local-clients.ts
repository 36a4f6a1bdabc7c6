/**
 * Keeps this host's own connections to a virtual IP alive when it moves: docs/adr/0020.
 *
 * Goal: kubelet and controller-manager of the host that had the VIP go on without a pause.
 * Tension: the route for that must go as soon as its address does, and a look at all rules takes its time.
 * Compromise: a reading of its own after each change of addresses, which takes a millisecond. What cannot be kept
 * (IPv6, and what was open before the route was set) is ended, so that its program connects again at once.
 */
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { type Kernel, type LocalRoutes, type Trigger } from '../../lib/kernel/port.ts';
import {
  findSources,
  planRouteRemoval,
  planSourceRoutes,
  type RouteChange,
  type RouteWishes,
} from '../decide/source-routes.ts';
import { type LocalClientListener, type LoopObserver } from '../report/loop-observer.ts';

/** What it needs of the world. */
export interface LocalClientPorts {
  readonly kernel: Pick<
    Kernel,
    'readLocalRoutes' | 'addSourceRoute' | 'removeSourceRoute' | 'abortOwnConnections'
  >;
  readonly report: LocalClientListener;
}

/** An address that comes and goes meanwhile is met by the next reading. */
const maxRounds = 3;

/** Keeps the routes right, one reading after the other. */
export class LocalClients implements Partial<LoopObserver> {
  readonly #ports: LocalClientPorts;
  readonly #wishes: RouteWishes;
  /** The VIPs whose own connections are in order: held here, or ended since. Those of a former process may hang. */
  readonly #settled = new Set<Endpoint>();
  #held: ReadonlySet<string> | null = null;
  #work: Promise<void> | null = null;
  #isAsked = false;
  #isStopped = false;
  #sources: ReadonlyMap<string, string> = new Map();

  constructor(ports: LocalClientPorts, wishes: RouteWishes) {
    this.#ports = ports;
    this.#wishes = wishes;
  }

  /**
   * By address, of IPv4 VIPs that this host holds: the source of its own connections to it, as last read. Empty where that
   * failed.
   */
  get sources(): ReadonlyMap<string, string> {
    return this.#sources;
  }

  triggered(trigger: Trigger): void {
    if (trigger === 'addresses') this.looked();
  }

  /** Returns at once. */
  looked(): void {
    if (this.#isStopped) return;
    this.#isAsked = true;
    this.#work ??= this.#goOn().finally(() => (this.#work = null));
  }

  /** Takes every route of ours away: without an agent nobody would when the VIP goes. Never rejects. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#work;
    await this.#attempt(async () => {
      const seen = await this.#ports.kernel.readLocalRoutes();
      const problems = await this.#apply(planRouteRemoval(seen, null));
      if (problems.length > 0) throw problems[0];
    });
  }

  async #goOn(): Promise<void> {
    while (this.#isAsked && !this.#isStopped) {
      this.#isAsked = false;
      await this.#attempt(() => this.#keep());
    }
  }

  async #keep(): Promise<void> {
    const problems = await this.#keepRoutes();
    if (this.#wishes.localClients === 'keep') problems.push(...(await this.#endWhatHangs()));
    if (problems.length > 0) throw problems[0];
    this.#ports.report.localClientsKept();
  }

  async #keepRoutes(): Promise<unknown[]> {
    for (let round = 0; round < maxRounds; round += 1) {
      const seen = await this.#read();
      this.#noteHeld(seen);
      const changes = planSourceRoutes(seen, this.#wishes);
      if (changes.length === 0) break;
      const problems = await this.#apply(changes);
      // What was refused now is refused in the next round, too.
      if (problems.length > 0) return problems;
    }
    return [];
  }

  /** Each by itself: one VIP's route that cannot be added says nothing of another's. Answers what went wrong. */
  async #apply(changes: readonly RouteChange[]): Promise<unknown[]> {
    const { kernel, report } = this.#ports;
    return await tryEach(changes, async (change) => {
      await (change.kind === 'add'
        ? kernel.addSourceRoute(change.route)
        : kernel.removeSourceRoute(change.route));
      report.sourceRouteChanged(change);
    });
  }

  async #read(): Promise<LocalRoutes> {
    try {
      const seen = await this.#ports.kernel.readLocalRoutes();
      this.#sources = findSources(seen, this.#wishes.vips);
      return seen;
    } catch (error) {
      this.#sources = new Map();
      throw error;
    }
  }

  #noteHeld({ addresses }: LocalRoutes): void {
    const here = new Set(addresses.map(({ address }) => address));
    for (const vip of this.#wishes.vips) {
      if (this.#held?.has(vip.address) === true && !here.has(vip.address)) this.#settled.delete(vip);
    }
    this.#held = here;
  }

  async #endWhatHangs(): Promise<unknown[]> {
    const hanging = this.#wishes.vips.filter(
      (vip) => this.#held?.has(vip.address) !== true && !this.#settled.has(vip),
    );
    return await tryEach(hanging, async (vip) => {
      // Once only: a kernel that cannot do it never will.
      this.#settled.add(vip);
      const count = await this.#ports.kernel.abortOwnConnections(vip);
      if (count > 0) this.#ports.report.ownConnectionsEnded(vip, count);
    });
  }

  async #attempt(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      this.#ports.report.localClientsNotKept(error);
    }
  }
}

/** Tries all, one after the other; answers what went wrong. */
async function tryEach<T>(all: readonly T[], act: (one: T) => Promise<void>): Promise<unknown[]> {
  const problems: unknown[] = [];
  for (const one of all) await act(one).catch((problem: unknown) => problems.push(problem));
  return problems;
}
