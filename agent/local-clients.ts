import type { LoopObserver } from './report/events.ts';
import type { RouteChange } from './decide/decision.ts';
import { type Endpoint, isInSubnet } from '../lib/net.ts';
import type { Config } from '../config/options.ts';
import type { LocalRoutes, SourceRoute, Kernel, Trigger } from '../lib/kernel/port.ts';
import { sourceRouteCommand } from '../lib/kernel/forwarding.ts';

/**
 * Which local routes name a source for this host's own connections to a virtual IP: docs/adr/0020.
 *
 * Goal: a virtual IP that moves away hangs no program of the host that had it.
 * Tension: a connection from the VIP to the VIP ends with the address. A route that names another source outlives the
 * address, and a kernel that has such a route answers ARP for it.
 * Compromise: the route is placed before the kernel's own and never replaces it, so removing it is always safe; it is
 * there only while the address is, and while an agent runs that watches this.
 */

type RouteSettings = Pick<Config, 'vips' | 'localClients'>;

/**
 * First what is to be removed of VIPs that want no route: it answers ARP for another node's address. Then what is to be added, and last what
 * that replaces. Pure and total: after these changes there are none.
 */
export function planSourceRoutes(seen: LocalRoutes, { vips, localClients }: RouteSettings): RouteChange[] {
  const ipv4 = vips.filter(({ family }) => family === 'ipv4');
  const addresses = [...new Set(ipv4.map(({ address }) => address))];
  const wanted = localClients === 'leave' ? [] : addresses.flatMap((vip) => findWanted(vip, seen, addresses));
  const own = seen.routes.flatMap(({ isOwn, source, ...route }) =>
    isOwn && source !== null ? [{ ...route, source }] : [],
  );
  const removals = own
    .filter((route) => !wanted.some((other) => isSame(route, other)))
    .map((route) => toChange('remove', route, explainRemoval(route, seen, localClients)));
  const isReplaced = ({ route }: RouteChange) => wanted.some(({ address }) => address === route.address);
  return [
    ...removals.filter((change) => !isReplaced(change)),
    ...wanted
      .filter((route) => !own.some((other) => isSame(route, other)))
      .map((route) => toChange('add', route, 'their connections survive a move of the VIP')),
    ...removals.filter(isReplaced),
  ];
}

/** What removes every route of vipnat's, or those of some virtual IPs. Pure and total. */
export function planRouteRemoval(seen: LocalRoutes, vips: readonly Endpoint[] | null): RouteChange[] {
  const isMeant = (address: string) => vips?.some((vip) => vip.address === address) ?? true;
  const own = { ...seen, routes: seen.routes.filter(({ address }) => isMeant(address)) };
  return planSourceRoutes(own, { vips: [], localClients: 'leave' });
}

/** By address, of virtual IPs that this host holds: the source of its own connections to it. None of IPv6. Pure. */
export function findSources(
  { addresses, routes }: LocalRoutes,
  vips: readonly Endpoint[],
): ReadonlyMap<string, string> {
  return new Map(
    vips.flatMap(({ address }) => {
      const isHeld = addresses.some((one) => one.address === address);
      const source = routes.find((route) => route.address === address)?.source ?? null;
      return source === null || !isHeld ? [] : [[address, source] as const];
    }),
  );
}

function findWanted(vip: string, seen: LocalRoutes, vips: readonly string[]): SourceRoute[] {
  const held = seen.addresses.find(({ address }) => address === vip);
  if (held === undefined || hasForeignSource(vip, seen)) return [];
  const source = chooseSource(vip, held.device, seen, vips);
  return source === null ? [] : [{ address: vip, device: held.device, source }];
}

/**
 * The kernel itself names the primary address where the VIP is a secondary one (10.0.0.50/24 next to 10.0.0.1/24). Other software may
 * have its own route.
 */
function hasForeignSource(vip: string, { addresses, routes }: LocalRoutes): boolean {
  const first = routes.find(({ address, isOwn }) => address === vip && !isOwn);
  return (
    first !== undefined && first.source !== vip && addresses.some(({ address }) => address === first.source)
  );
}

/** One on the VIP's interface and in its subnet, else one that has a subnet there, else the one that goes everywhere. */
function chooseSource(
  vip: string,
  device: string,
  { addresses, usualSource }: LocalRoutes,
  vips: readonly string[],
): string | null {
  const candidates = addresses.filter(
    ({ family, address, isSource }) => family === 'ipv4' && isSource && !vips.includes(address),
  );
  const there = candidates.filter((one) => one.device === device);
  // Other software sets its virtual addresses with a whole prefix: one may move as vipnat's do.
  const lasting = there.filter(({ prefixLength }) => prefixLength < wholePrefix);
  const [best] = [
    ...lasting.filter((one) => isInSubnet(vip, one)),
    ...lasting,
    ...candidates.filter(({ address }) => address === usualSource),
    ...there,
  ];
  return best?.address ?? null;
}

const wholePrefix = 32;

function explainRemoval(
  { address, source }: SourceRoute,
  { addresses }: LocalRoutes,
  setting: RouteSettings['localClients'],
): string {
  const isHere = (text: string) => addresses.some((one) => one.address === text);
  if (!isHere(address)) return `${address} is no longer on this host`;
  if (!isHere(source)) return `${source} is no longer on this host`;
  return setting === 'leave' ? 'no agent maintains it' : 'vipnat prefers another route or source';
}

function toChange(kind: RouteChange['kind'], route: SourceRoute, reason: string): RouteChange {
  return { kind, route, reason, command: sourceRouteCommand(kind, route) };
}

function isSame(one: SourceRoute, other: SourceRoute): boolean {
  return one.address === other.address && one.device === other.device && one.source === other.source;
}

/**
 * Keeps this host's own connections to a virtual IP alive when it moves: docs/adr/0020.
 *
 * Goal: kubelet and controller-manager of the host that had the VIP continue without a pause.
 * Tension: the route for that must go as soon as its address does, and a sync of all rules takes its time.
 * Compromise: a reading of its own after each change of addresses, which takes a millisecond. What cannot be kept
 * (IPv6, and what was open before the route was set) is ended, so that its program connects again immediately.
 */

interface LocalClientPorts {
  readonly kernel: Pick<
    Kernel,
    'readLocalRoutes' | 'addSourceRoute' | 'removeSourceRoute' | 'abortOwnConnections'
  >;
  readonly report: Pick<
    LoopObserver,
    'sourceRouteChanged' | 'ownConnectionsEnded' | 'localClientsKept' | 'localClientsNotKept'
  >;
}

/** An address that comes and goes meanwhile is met by the next reading. */
const maxRounds = 3;

/** Keeps the routes right, one reading after the other. */
export class LocalClients implements Partial<LoopObserver> {
  readonly #ports: LocalClientPorts;
  readonly #settings: RouteSettings;
  /** The VIPs whose own connections are in order: held here, or ended since. Those of a former process may hang. */
  readonly #settled = new Set<Endpoint>();
  #held: ReadonlySet<string> | null = null;
  #work: Promise<void> | null = null;
  #isAsked = false;
  #isStopped = false;
  /** By VIP address: the source of this host's own connections to it, as last read. Empty where that failed. */
  sources: ReadonlyMap<string, string> = new Map();

  constructor(ports: LocalClientPorts, settings: RouteSettings) {
    this.#ports = ports;
    this.#settings = settings;
  }

  triggered(trigger: Trigger): void {
    if (trigger === 'addresses') this.synced();
  }

  /** Returns immediately. */
  synced(): void {
    if (this.#isStopped) return;
    this.#isAsked = true;
    this.#work ??= this.#goOn().finally(() => (this.#work = null));
  }

  /** Removes every route of vipnat's: without an agent nobody would when the VIP goes. Never rejects. */
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
    if (this.#settings.localClients === 'keep') problems.push(...(await this.#endWhatHangs()));
    if (problems.length > 0) throw problems[0];
    this.#ports.report.localClientsKept();
  }

  async #keepRoutes(): Promise<unknown[]> {
    for (let round = 0; round < maxRounds; round += 1) {
      const seen = await this.#read();
      this.#noteHeld(seen);
      const changes = planSourceRoutes(seen, this.#settings);
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
      this.sources = findSources(seen, this.#settings.vips);
      return seen;
    } catch (error) {
      this.sources = new Map();
      throw error;
    }
  }

  #noteHeld({ addresses }: LocalRoutes): void {
    const here = new Set(addresses.map(({ address }) => address));
    for (const vip of this.#settings.vips)
      if (this.#held?.has(vip.address) === true && !here.has(vip.address)) this.#settled.delete(vip);
    this.#held = here;
  }

  async #endWhatHangs(): Promise<unknown[]> {
    const hanging = this.#settings.vips.filter(
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
