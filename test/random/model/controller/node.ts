import type { ObjectApi, Kind, StoredObject } from '../../../support/fakes/object-api.ts';
import { type NodeReport, toAnnotations, toLeaseName } from '../../../../lib/api/node.ts';
import { parseObjectName } from '../../../../lib/net.ts';
import { isReadyIn, isOwnedBy } from './pod-facts.ts';

/** @alive of the node's table: without a balancer it runs out after that time. */
const aliveMs = 30_000;

const renewMs = 10_000;

/** A Lease lasts 40 s; who judges it hears of renewals a little late. */
const surelyLivingMs = 38_000;

const followed = ['VirtualIP', 'Service', 'EndpointSlice'] as const;

/** What the world has for a node: the API, the time, and other hosts' addresses. */
interface NodeSurroundings {
  readonly api: ObjectApi;
  readonly nowMs: () => number;
  readonly foreignHosts: ReadonlySet<string>;
  /** Whether keepalived of a node may hold seats. */
  readonly canHold: (node: string) => boolean;
}

/** A node with its balancer: it programs what it hears, and says so in its Lease. */
export class SimulatedNode {
  readonly name: string;
  isRunning = true;
  isConnected = true;
  mode: NodeReport['mode'] = 'direct';
  readonly #around: NodeSurroundings;
  readonly #kindToPosition = new Map<Kind, number>();
  readonly #table = new Map<string, readonly string[]>();
  readonly #slices = new Map<string, StoredObject>();
  /** What its Lease says, and since when. */
  #reportedMode: NodeReport['mode'] | null = null;
  #reportedModeMs = 0;
  #aliveUntilMs = 0;
  #renewedMs = -Infinity;
  #livingSinceMs = 0;
  #hasListed = false;
  /** Up to where its interfaces have the addresses: a report later than it has programmed them. */
  #announced = '0';

  constructor(name: string, around: NodeSurroundings) {
    this.name = name;
    this.#around = around;
    this.start();
  }

  /** A fresh balancer. It writes nothing before it has listed all. */
  start(): void {
    this.isRunning = true;
    this.#hasListed = false;
    this.#announced = '0';
    this.#begin();
  }

  /** Its kernel is gone. */
  powerOff(): void {
    this.isRunning = false;
    this.#table.clear();
  }

  /** Whoever was silent for long says that it is back, before it programs anything new. */
  #begin(): void {
    if (this.#around.nowMs() - this.#renewedMs > surelyLivingMs) this.report();
    this.#list();
  }

  #list(): void {
    if (!this.isRunning || !this.isConnected || this.#hasListed) return;
    this.#hasListed = true;
    this.#table.clear();
    this.#slices.clear();
    for (const [key, slice] of this.#around.api.list('EndpointSlice')) this.#slices.set(key, slice);
    for (const kind of followed) this.#kindToPosition.set(kind, this.#around.api.log(kind).length);
    for (const [name, object] of this.#around.api.list('VirtualIP')) this.#program(name, object);
    this.#aliveUntilMs = this.#around.nowMs() + aliveMs;
  }

  /** Hears and programs up to so many events of each kind. */
  program(most: number): void {
    if (!this.isRunning || !this.isConnected) return;
    this.#begin();
    for (const kind of followed) {
      const from = this.#kindToPosition.get(kind) ?? 0;
      const entries = this.#around.api.log(kind).slice(from, from + most);
      if (kind === 'VirtualIP') for (const { key, object } of entries) this.#program(key, object);
      if (kind === 'EndpointSlice') for (const { key, object } of entries) this.#takeSlice(key, object);
      this.#kindToPosition.set(kind, from + entries.length);
    }
  }

  /** Writes its Lease. */
  report(): void {
    if (!this.isRunning || !this.isConnected) return;
    this.#list();
    const { api, nowMs, foreignHosts } = this.#around;
    const addresses = [...this.#table.keys()].map((name) => parseObjectName(name)?.text ?? '');
    const [virtualips = '0', services = '0', earlyslices = '0'] = followed.map((kind) =>
      this.#getVersion(kind),
    );
    const report: NodeReport = {
      node: this.name,
      programmed: { virtualips, services, earlyslices },
      announced: this.#announced,
      seats: this.#listSeats(),
      mode: this.mode,
      inUse: addresses.filter((address) => foreignHosts.has(address)),
    };
    this.#announced = virtualips;
    if (this.#reportedMode !== this.mode) this.#reportedModeMs = nowMs();
    this.#reportedMode = this.mode;
    const fields = {
      metadata: { annotations: toAnnotations(report) },
      spec: { holderIdentity: this.name, leaseDurationSeconds: 40, renewTime: `${nowMs()} ${api.version}` },
    };
    const name = toLeaseName(this.name);
    if (api.patch('Lease', name, fields) === 404) api.create('Lease', name, fields);
    if (nowMs() - this.#renewedMs > surelyLivingMs) this.#livingSinceMs = nowMs();
    this.#renewedMs = nowMs();
  }

  pass(): void {
    const { nowMs } = this.#around;
    if (this.isRunning && this.#hasListed) this.#aliveUntilMs = nowMs() + aliveMs;
    if (nowMs() - this.#renewedMs >= renewMs) this.report();
  }

  /** The Services that its kernel sends packets for an address to. */
  listServing(name: string): readonly string[] {
    return this.#around.nowMs() < this.#aliveUntilMs ? (this.#table.get(name) ?? []) : [];
  }

  /** Whether its kernel sends packets for an address to this Service. */
  serves(name: string, uid: string): boolean {
    return this.listServing(name).includes(uid);
  }

  /** The addresses that its kernel has for this Service. */
  listServed(uid: string): string[] {
    return [...this.#table.keys()].filter((name) => this.serves(name, uid));
  }

  /** Whether its kernel sends connections to a Service, by its uid, to a pod as well, by its uid; with policy Local, to its own first. */
  sendsTo(pod: string, service: string, isOwn = false): boolean {
    return [...this.#slices.values()].some(
      (slice) => isReadyIn(slice, pod, isOwn) && isOwnedBy(slice, service),
    );
  }

  hasLivedSince(ms: number): boolean {
    return this.#livingSinceMs <= ms && this.#around.nowMs() - this.#renewedMs < surelyLivingMs;
  }

  /** Whether its Lease has said since a moment that it can serve, and lives. */
  couldServeSince(ms: number): boolean {
    return this.#reportedMode !== 'none' && this.#reportedModeMs <= ms && this.hasLivedSince(ms);
  }

  /** Who holds a seat is VRRP's, and here always the first node that can. */
  #listSeats(): string[] {
    return [...this.#around.api.list('AddressPool')].flatMap(([pool, { status }]) => {
      const seats = (status?.['seats'] ?? []) as readonly { index: number; nodes: readonly string[] }[];
      const held = seats.filter(({ nodes }) => nodes.find(this.#around.canHold) === this.name);
      return held.map(({ index }) => `${pool}/${index}`);
    });
  }

  #takeSlice(key: string, object: StoredObject | null): void {
    if (object === null) this.#slices.delete(key);
    else this.#slices.set(key, object);
  }

  #program(name: string, object: StoredObject | null): void {
    const users = (object?.spec?.['services'] ?? []) as readonly { readonly uid: string }[];
    const uids = users.map(({ uid }) => uid);
    if (object === null) this.#table.delete(name);
    else this.#table.set(name, uids);
  }

  /** Up to where it has programmed all: with nothing left to hear, a bookmark says that it is the newest version there is. */
  #getVersion(kind: Kind): string {
    const { api } = this.#around;
    const position = this.#kindToPosition.get(kind) ?? 0;
    const log = api.log(kind);
    return String(position === log.length ? api.version : (log[position - 1]?.version ?? 0));
  }
}
