import { type Step, type Write } from '../../../../controller/reconcile/step.ts';
import { type StepKey, type WaitsFor } from '../../../../controller/world/keys.ts';
import { NodeLiveness } from '../../../../controller/world/node-liveness.ts';
import { type Settings, type World } from '../../../../controller/world/world.ts';
import { type Affected } from '../../../../controller/world/affected.ts';
import { WorldStore } from '../../../../controller/world/world-store.ts';
import { type ApiObject } from '../../../../lib/kubernetes/api-object.ts';
import { type Resource } from '../../../../lib/kubernetes/resources.ts';
import { namespaces, nodes } from '../../../../lib/services/cluster.ts';
import { parseNodeLease, toLeaseResource } from '../../../../lib/services/node-report.ts';
import { addressPools, virtualIps } from '../../../../lib/services/objects.ts';
import { services } from '../../../../lib/services/services.ts';
import { type Kind, type ObjectApi, type StoredObject } from '../../../support/fakes/object-api.ts';

/** What is tried: the product's, or a broken one. */
export type Decide = (key: StepKey, world: World) => Step;

/** How a request ends. */
export type Outcome = 'done' | 'never sent' | 'answer lost';

/** A key's step on its way to the API. */
interface InFlight {
  readonly key: string;
  readonly write: Write;
  isConfirmed: boolean;
}

const kinds = ['Service', 'VirtualIP', 'AddressPool', 'Namespace', 'Node', 'Lease'] as const;
const leases = toLeaseResource('vipnat');

/** A watch that is silent for longer is known to be: the controller no longer hears its own Lease. */
const noticedMs = 2000;

/** As many as work at once. */
const maxInFlight = 3;

/** What a controller has at its start, besides the API. */
export interface Surroundings {
  readonly nowMs: () => number;
  readonly settings: Settings;
}

/** One controller that believes it leads: informers that lag, a queue, requests under way. */
export class SimulatedController {
  readonly #api: ObjectApi;
  readonly #decide: Decide;
  readonly #nowMs: () => number;
  readonly #store: WorldStore;
  readonly #liveness = new NodeLiveness();
  readonly #kindToPosition = new Map<Kind, number>();
  readonly #known = new Map<string, ApiObject>();
  readonly #due = new Set<string>();
  /** What a key waits for: to have heard of its own write. */
  readonly #keyToUnheard = new Map<string, { readonly kind: Kind; readonly position: number }>();
  /** What for, and until when by a clock that never jumps. */
  readonly #keyToWait = new Map<string, { readonly waitsFor: WaitsFor; readonly untilMs: number | null }>();
  #inFlight: InFlight[] = [];
  /** A kind whose watch is silent, and nobody knows. */
  frozen: Kind | null = null;
  /** How far its date is from that of the world. */
  dateOffsetMs = 0;

  constructor(api: ObjectApi, decide: Decide, { nowMs, settings }: Surroundings) {
    this.#api = api;
    this.#store = new WorldStore(settings);
    this.#decide = decide;
    this.#nowMs = nowMs;
    for (const kind of kinds) {
      this.#kindToPosition.set(kind, api.log(kind).length);
      for (const [key, object] of api.list(kind)) this.#hear(kind, key, object);
    }
  }

  get due(): readonly string[] {
    const underWay = new Set(this.#inFlight.map(({ key }) => key));
    return [...this.#due].filter((key) => !underWay.has(key) && this.#hasHeardItself(key));
  }

  get inFlight(): number {
    return this.#inFlight.length;
  }

  /** Hears up to so many events of a kind. */
  hear(kind: Kind, most: number): void {
    if (kind === this.frozen) return;
    const from = this.#kindToPosition.get(kind) ?? 0;
    for (const { key, object } of this.#api.log(kind).slice(from, from + most)) {
      this.#kindToPosition.set(kind, (this.#kindToPosition.get(kind) ?? 0) + 1);
      this.#hear(kind, key, object);
    }
  }

  hearAll(): void {
    for (const kind of kinds) this.hear(kind, Infinity);
  }

  /** One second, or less, has passed. */
  pass(): void {
    const [waiting] = this.#api.log('Lease').slice(this.#kindToPosition.get('Lease') ?? 0);
    const isFollowed = waiting === undefined || this.#nowMs() - waiting.atMs <= noticedMs;
    for (const node of this.#liveness.tick(this.#nowMs(), isFollowed))
      this.#affect(this.#store.silenceNode(node, this.#liveness.getLastRenewal(node) ?? ''));
    for (const [key, { untilMs }] of this.#keyToWait)
      if (untilMs !== null && untilMs <= this.#nowMs()) this.#due.add(key);
  }

  /** Takes a key that is due, and decides. */
  take(key: string): void {
    if (this.#inFlight.length >= maxInFlight) return;
    this.#due.delete(key);
    this.#keyToWait.delete(key);
    const step = this.#decide(JSON.parse(key) as StepKey, this.#store.view(this.#dateMs));
    if (step.does === 'wait') {
      const untilMs = step.untilMs === null ? null : step.untilMs - this.dateOffsetMs;
      this.#keyToWait.set(key, { waitsFor: step.waitsFor, untilMs });
    }
    if (step.does === 'write')
      this.#inFlight.push({ key, write: step.write, isConfirmed: step.write.confirm.length === 0 });
  }

  /** The next request of one of those under way. Answers what was written, and what came of it. */
  proceed(index: number, outcome: Outcome): string | null {
    const one = this.#inFlight[index];
    if (one === undefined) return null;
    if (!one.isConfirmed && outcome === 'done') {
      one.isConfirmed = one.write.confirm.every(
        ({ path, version }) => this.#api.getVersion(path) === version,
      );
      if (one.isConfirmed) return null;
    }
    this.#inFlight = this.#inFlight.filter((each) => each !== one);
    this.#due.add(one.key);
    if (!one.isConfirmed || outcome === 'never sent') return null;
    const status = this.#api.handle(one.write);
    const { kind, method, path, body } = one.write;
    const what = `${method} ${path} ${JSON.stringify(body)}: ${status}`;
    if (status >= 300 || outcome === 'answer lost') return what;
    this.#keyToUnheard.set(one.key, { kind, position: this.#api.log(kind).length });
    return what;
  }

  /** Keys for which something would be written, though nothing says that they are to be looked at. */
  listForgotten(): string[] {
    const all: StepKey[] = [
      ...[...this.#api.list('Service').keys()].map((key): StepKey => {
        const [namespace = '', name = ''] = key.split('/');
        return { kind: 'Service', namespace, name };
      }),
      ...[...this.#api.list('VirtualIP').keys()].map((name): StepKey => ({ kind: 'VirtualIP', name })),
      ...[...this.#api.list('AddressPool').keys()].map((name): StepKey => ({ kind: 'AddressPool', name })),
    ];
    const world = this.#store.view(this.#dateMs);
    return all.filter((key) => this.#decide(key, world).does === 'write').map((key) => JSON.stringify(key));
  }

  /** What is known of this key: for who reads a walk. */
  explain(key: StepKey): Step {
    return this.#decide(key, this.#store.view(this.#dateMs));
  }

  get #dateMs(): number {
    return this.#nowMs() + this.dateOffsetMs;
  }

  #hasHeardItself(key: string): boolean {
    const unheard = this.#keyToUnheard.get(key);
    if (unheard === undefined) return true;
    if ((this.#kindToPosition.get(unheard.kind) ?? 0) < unheard.position) return false;
    this.#keyToUnheard.delete(key);
    return true;
  }

  #hear(kind: Kind, key: string, object: StoredObject | null): void {
    if (kind === 'Lease') this.#hearLease(key, object);
    else this.#affect(this.#change(kind, key, object));
  }

  #change(kind: Exclude<Kind, 'Lease'>, key: string, object: StoredObject | null): Affected {
    switch (kind) {
      case 'Service':
        return this.#store.changeService(this.#note(services, key, object));
      case 'VirtualIP':
        return this.#store.changeVirtualIp(this.#note(virtualIps, key, object));
      case 'AddressPool':
        return this.#store.changePool(this.#note(addressPools, key, object));
      case 'Namespace':
        return this.#store.changeNamespace(this.#note(namespaces, key, object));
      case 'Node':
        return this.#store.changeNode(this.#note(nodes, key, object));
    }
  }

  #hearLease(key: string, object: StoredObject | null): void {
    const { after } = this.#note(leases, key, object);
    const lease = after === null ? null : parseNodeLease(after);
    if (lease === null) return;
    const { report, renewal, durationMs } = lease;
    this.#liveness.heard(report.node, renewal, durationMs);
    if (this.#liveness.isLiving(report.node)) this.#affect(this.#store.changeReport(report.node, report));
  }

  /** What an informer says of it. */
  #note<T extends ApiObject>(
    { kind, schema }: Resource<T>,
    key: string,
    object: StoredObject | null,
  ): { key: string; before: T | null; after: T | null } {
    const before = (this.#known.get(`${kind} ${key}`) ?? null) as T | null;
    const after = object === null ? null : schema.parse(object);
    if (after === null) this.#known.delete(`${kind} ${key}`);
    else this.#known.set(`${kind} ${key}`, after);
    return { key, before, after };
  }

  #affect({ keys, wakes }: Affected): void {
    for (const key of keys) this.#due.add(JSON.stringify(key));
    for (const [key, { waitsFor }] of this.#keyToWait) if (wakes.has(waitsFor)) this.#due.add(key);
  }
}
