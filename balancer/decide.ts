import { type Clock, Rounds } from '../lib/clock.ts';
import type { PlacedAddress } from '../lib/kernel/addresses.ts';
import { classifyAddress, families } from '../lib/net.ts';
import {
  proxyInterface,
  type BalancedService,
  type Balances,
  listUplinks,
  noOutages,
  type NodeOutages,
  type Place,
} from './services/backends.ts';
import type { BalancerKernel } from '../lib/kernel/kernel.ts';
import type { NodeWatch } from './nodes/health.ts';
import type { FollowedObjects } from './services/follow.ts';
import type { SyncLog } from './log.ts';
import {
  isLeftToKubeProxy,
  balanceFamilies,
  type ServiceBalance,
  noBalance,
  MemoryBudget,
} from './services/frontend.ts';
import { isDeepStrictEqual } from 'node:util';

/** What the caller supplies. */
export interface DecidePorts {
  readonly clock: Clock;
  readonly kernel: Pick<BalancerKernel, 'listMissingFeatures'>;
  /** Those of the balancer's tables, see `BalancerKernel`. */
  readonly listMemories: () => ReturnType<BalancerKernel['listMemories']>;
  readonly readAddresses: () => Promise<readonly PlacedAddress[]>;
  /** Of this host, see `listStrictTunnels`. */
  readonly listStrictTunnels: () => Promise<readonly string[]>;
  /** Which of these addresses packets reach by a router, see `findRouted`. May reject. */
  readonly findRouted: (addresses: readonly string[]) => Promise<readonly string[]>;
  /** As the API names this node. */
  readonly node: string;
  readonly nodes: NodeWatch;
}

type AddressPorts = Pick<DecidePorts, 'clock' | 'readAddresses' | 'listStrictTunnels'>;

/** The node that holds 1,000 addresses takes milliseconds for it, and endpoints change many times a second. */
const addressesPaceMs = 1000;

/** Somebody changes a switch of the kernel, or a network plugin makes its tunnel. */
const tunnelPaceMs = 60_000;

interface HostView extends Required<Pick<Place, 'local' | 'uplinks' | 'strictTunnels'>> {
  /** The addresses that have come or gone. */
  readonly moved: ReadonlySet<string>;
  /** Whether `uplinks` or `strictTunnels` are others. */
  readonly areLinksOther: boolean;
}

/** This host's own addresses. Not those of Services, which come and go; nor link-local ones, as the host's end of each pod has one, and no endpoint. */
export class OwnAddresses {
  readonly #ports: AddressPorts;
  #read: readonly PlacedAddress[] = [];
  #readAt = -Infinity;
  #known: ReadonlySet<string> = new Set();
  #uplinks: readonly PlacedAddress[] | null = null;
  #strictTunnels: readonly string[] = [];
  #tunnelsReadAt = -Infinity;
  /** Addresses of Services to whether this host holds them, and when it was first seen so: never, where it held one at the start. */
  readonly #turns = new Map<string, { readonly isHeld: boolean; readonly at: number }>();

  constructor(ports: AddressPorts) {
    this.#ports = ports;
  }

  /** Answers what is there, and what has changed. The kernel is asked once a second at most, for tunnels once a minute. Rejects as it does. */
  async read(vips: ReadonlySet<string>): Promise<HostView> {
    const now = this.#ports.clock.now();
    if (now - this.#readAt >= addressesPaceMs) {
      const placed = await this.#ports.readAddresses();
      this.#read = placed.filter(
        (one) => classifyAddress({ family: one.family, text: one.address }) !== 'linkLocal',
      );
      this.#readAt = now;
      this.#noteTurns(vips);
    }
    const found = new Set(this.#read.map(({ address }) => address).filter((address) => !vips.has(address)));
    const moved = new Set(
      [...found, ...this.#known].filter((one) => found.has(one) !== this.#known.has(one)),
    );
    const uplinks = listUplinks(this.#read);
    // Before anything is stored: after a sync that fails, the next one still reports the change.
    const areTunnelsOther = await this.#readTunnels(now);
    const areLinksOther = areTunnelsOther || JSON.stringify(uplinks) !== JSON.stringify(this.#uplinks);
    // The same set while nothing has changed: who reads it keeps what it has made of it.
    if (moved.size > 0) this.#known = found;
    this.#uplinks = uplinks;
    return { moved, areLinksOther, local: this.#known, uplinks, strictTunnels: this.#strictTunnels };
  }

  /** When this host last came to hold an address of a Service, or lost it. */
  turnedAt(vip: string): number {
    return this.#turns.get(vip)?.at ?? -Infinity;
  }

  #noteTurns(vips: ReadonlySet<string>): void {
    const own = this.#read.filter(({ device }) => device !== proxyInterface);
    const held = new Set(own.map(({ address }) => address));
    for (const vip of this.#turns.keys()) if (!vips.has(vip)) this.#turns.delete(vip);
    for (const vip of vips) {
      const [before, isHeld] = [this.#turns.get(vip), held.has(vip)];
      // For an address that has left, packets still come for a while: clients do not know yet who has it.
      const at = before === undefined && isHeld ? -Infinity : this.#readAt + (isHeld ? 0 : 5000);
      if (before?.isHeld !== isHeld) this.#turns.set(vip, { isHeld, at });
    }
  }

  async #readTunnels(now: number): Promise<boolean> {
    if (now - this.#tunnelsReadAt < tunnelPaceMs) return false;
    const before = this.#strictTunnels.join();
    this.#strictTunnels = await this.#ports.listStrictTunnels();
    this.#tunnelsReadAt = now;
    return this.#strictTunnels.join() !== before;
  }
}

type PathPorts = Pick<DecidePorts, 'clock' | 'findRouted'>;

/** Routes to pods' networks come and go with nodes, and nobody tells. */
const routesPaceMs = 60_000;

/** By which paths packets reach endpoints on other nodes. An address that was not asked for yet counts as reached by no router. */
export class RelayPaths {
  readonly #ports: PathPorts;
  readonly #onChange: (services: readonly string[]) => void;
  readonly #serviceToAddresses = new Map<string, readonly string[]>();
  #routed: ReadonlySet<string> = new Set();
  #asked: ReadonlySet<string> = new Set();
  readonly #rounds: Rounds;

  /** `onChange` is called with the Services whose addresses are reached otherwise than before. */
  constructor(ports: PathPorts, onChange: (services: readonly string[]) => void) {
    this.#ports = ports;
    this.#onChange = onChange;
    this.#rounds = new Rounds(ports.clock, this.#ask.bind(this), this.#findDelay.bind(this));
  }

  /** The addresses that are reached by a router. */
  get routed(): ReadonlySet<string> {
    return this.#routed;
  }

  /** Takes the addresses that a Service asks about; an empty list drops the Service. Returns immediately. */
  watch(service: string, addresses: readonly string[]): void {
    if (addresses.length === 0) this.#serviceToAddresses.delete(service);
    else this.#serviceToAddresses.set(service, addresses);
    if (addresses.some((address) => !this.#asked.has(address))) this.#rounds.plan(0);
  }

  stop(): void {
    void this.#rounds.stop();
  }

  #findDelay(): number | null {
    const all = [...this.#serviceToAddresses.values()];
    const isComplete = all.every((addresses) => addresses.every((address) => this.#asked.has(address)));
    return all.length === 0 ? null : isComplete ? routesPaceMs : 0;
  }

  async #ask(): Promise<void> {
    const asked = new Set([...this.#serviceToAddresses.values()].flat());
    const [found] = await Promise.allSettled([this.#ports.findRouted([...asked])]);
    this.#asked = asked;
    if (found.status === 'fulfilled') this.#take(new Set(found.value));
  }

  #take(routed: ReadonlySet<string>): void {
    const before = this.#routed;
    this.#routed = routed;
    const isOther = (address: string) => before.has(address) !== routed.has(address);
    const all = [...this.#serviceToAddresses];
    const services = all.filter(([, addresses]) => addresses.some(isOther)).map(([service]) => service);
    if (services.length > 0 && !this.#rounds.isStopped) this.#onChange(services);
  }
}

/** Which Services have endpoints on which nodes. */
class NodeUsers {
  readonly #serviceToNodes = new Map<string, ReadonlySet<string>>();
  #nodes: ReadonlySet<string> | null = null;
  #outages = noOutages;

  /** The nodes of all Services. The same set while no Service has changed its nodes. */
  get nodes(): ReadonlySet<string> {
    return (this.#nodes ??= new Set([...this.#serviceToNodes.values()].flatMap((nodes) => [...nodes])));
  }

  /** Takes the endpoints of a Service; none for one that is not balanced. */
  note(service: string, slices: BalancedService['slices']): void {
    const endpoints = slices.flatMap((slice) => slice.endpoints ?? []);
    const nodes = new Set(endpoints.flatMap(({ nodeName }) => nodeName ?? []));
    const before = this.#serviceToNodes.get(service) ?? new Set();
    if (before.size === nodes.size && [...nodes].every((node) => before.has(node))) return;
    this.#nodes = null;
    if (nodes.size === 0) this.#serviceToNodes.delete(service);
    else this.#serviceToNodes.set(service, nodes);
  }

  /** Takes the nodes that do not answer now. Answers the Services that may be balanced otherwise because of that. */
  take(outages: NodeOutages): string[] {
    const before = this.#outages;
    const nodes = new Set([...before.out, ...outages.out]);
    for (const node of [...before.unheard, ...outages.unheard])
      if (before.unheard.has(node) !== outages.unheard.has(node)) nodes.add(node);
    this.#outages = outages;
    return [...this.#serviceToNodes].flatMap(([service, own]) =>
      [...nodes].some((node) => own.has(node)) ? [service] : [],
    );
  }
}

type MissingFeatures = NonNullable<Place['missing']>;

/** Somebody loads a module of the kernel, or replaces nft. */
const missingPaceMs = 600_000;

/** Decides how the Services that may have changed are to be balanced. One that cannot be decided about is kube-proxy's, and keeps no other. */
export class Decider {
  readonly #ports: DecidePorts;
  readonly #objects: FollowedObjects;
  readonly #log: SyncLog;
  readonly addresses: OwnAddresses;
  readonly #users = new NodeUsers();
  readonly #paths: RelayPaths;
  readonly #left = new Map<string, string>();
  readonly #dropping = new Map<string, string>();
  /** The Services that are kube-proxy's although nobody asks for that, to why: a clause. */
  readonly left: ReadonlyMap<string, string> = this.#left;
  /** The Services of which this node drops clients that other nodes send on, to why: a clause. */
  readonly dropping: ReadonlyMap<string, string> = this.#dropping;
  /** Null before the first time. */
  #budget: MemoryBudget | null = null;
  #missing: MissingFeatures | null = null;
  #missingAskedAt = -Infinity;

  constructor(ports: DecidePorts, objects: FollowedObjects, log: SyncLog) {
    this.#ports = ports;
    this.#objects = objects;
    this.#log = log;
    this.addresses = new OwnAddresses(ports);
    this.#paths = new RelayPaths(ports, objects.touch.bind(objects));
    objects.index.left.isOut = (node) => ports.nodes.outages.out.has(node);
  }

  /** Whether a Service is kube-proxy's: its owner wants that, or this node cannot take it. */
  isLeft(service: string): boolean {
    const found = this.#objects.index.find(service);
    return this.#left.has(service) || (found !== null && isLeftToKubeProxy(found.service));
  }

  /** The nodes whose pods take connections although Kubernetes calls them not ready, see `applyKept`. */
  get kept(): ReadonlySet<string> {
    const { unheard } = this.#ports.nodes.outages;
    return new Set([...this.#objects.index.nodes.kept].filter((node) => !unheard.has(node)));
  }

  stop(): void {
    this.#paths.stop();
  }

  /** To be called when other nodes answer no more, or again. */
  noteOutages(): void {
    this.#objects.touch(this.#users.take(this.#ports.nodes.outages));
  }

  /** The Services that may be balanced otherwise since last asked. Rejects as the kernel does. */
  async decide(): Promise<Map<string, Balances>> {
    const [{ index }, { node, nodes }] = [this.#objects, this.#ports];
    const { vips } = index;
    const { zone, endings } = index.nodes;
    const missing = await this.#findMissing();
    const found = this.#budget === null ? await this.#ports.listMemories() : new Map<string, null>();
    const { moved, areLinksOther, ...host } = await this.addresses.read(vips);
    if (moved.size > 0) index.touch(index.listConcerned(moved));
    const [{ outages }, { routed }] = [nodes, this.#paths];
    const place: Place = { ...host, node, zone, vips, routed, outages, endings, missing, kept: this.kept };
    const decided = new Map<string, Balances>();
    const changed = index.takeChanged(areLinksOther);
    this.#budget ??= new MemoryBudget(found.keys(), changed);
    const named = changed.map((service) => [service, this.#objects.find(service)] as const);
    for (const [service, balanced] of this.#budget.admit(named))
      decided.set(service, this.#decideOne(service, balanced, place));
    if (this.#budget.waiting.length > 0) this.#objects.touch(this.#budget.waiting);
    nodes.watch(this.#users.nodes);
    return decided;
  }

  /** What was missing may come. What was there stays. */
  async #findMissing(): Promise<MissingFeatures> {
    const [known, { clock, kernel }] = [this.#missing, this.#ports];
    const isDue = known === null || clock.now() - this.#missingAskedAt >= missingPaceMs;
    if (!isDue || (known !== null && families.every((family) => known[family].length === 0))) return known;
    const asked = kernel.listMissingFeatures();
    const found = known === null ? await asked : await asked.catch(() => known);
    [this.#missing, this.#missingAskedAt] = [found, clock.now()];
    if (known !== null && !isDeepStrictEqual(known, found))
      this.#objects.index.touch(this.#objects.index.balanced);
    return found;
  }

  #decideOne(service: string, found: BalancedService | null, place: Place): Balances {
    const { ports, refused, remarks, left, dropping, elsewhere } = balance(found, place);
    this.#paths.watch(service, elsewhere);
    this.#users.note(service, ports.length === 0 ? [] : (found?.slices ?? []));
    this.#log.decided(service, refused, remarks, left);
    for (const [clauses, clause] of [[this.#left, left] as const, [this.#dropping, dropping] as const])
      if (clause === null) clauses.delete(service);
      else clauses.set(service, clause);
    return ports;
  }
}

/** What is wrong with one Service is not what others wait for. */
function balance(found: BalancedService | null, place: Place): ServiceBalance {
  try {
    return balanceFamilies(found, place);
  } catch (error) {
    const left = `vipnat cannot decide about it (${(error as Error).message})`;
    return { ...noBalance, left };
  }
}
