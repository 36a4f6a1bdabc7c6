import { type StepKey, type Settings, type Affected, isWoken } from '../../../../controller/cache/known.ts';
import { type ClusterView, Cache } from '../../../../controller/cache/cache.ts';
import {
  type Step,
  type Write,
  type Kind as StepKind,
  RepeatedWrites,
  parseKey,
  listKeys,
  formatKey,
} from '../../../../controller/step.ts';
import type { Kind, ObjectApi, StoredObject } from '../../../support/fakes/object-api.ts';
import { toLeaseResource, parseNodeLease } from '../../../../lib/api/node.ts';
import { NodeLiveness } from '../../../../controller/cache/leases.ts';
import { KnownObjects } from './known-objects.ts';
import { OwnWrites, type OwnWrite, shownMs, toLife, type KeyStatus } from '../../../../controller/engine.ts';
import { WriteCounts } from './rewriter.ts';
import { kinds, serviceKinds } from '../../../../controller/leadership.ts';
import { getKind } from '../../../support/fakes/service-steps.ts';

/** What is tried: the product's, or a broken one. */
export type Decide = (key: StepKey, world: ClusterView) => Step;

type WaitStep = Extract<Step, { does: 'wait' }>;

type Outcome = 'done' | 'never sent' | 'answer lost';

/** A key's step on its way to the API. */
interface InFlight {
  readonly key: string;
  readonly write: Write;
  /** What was known of its object when the step was decided, and where to read it. */
  readonly object: string;
  readonly before: string | null;
  readonly readPath: string | null;
  /** What its step says of nodes. */
  readonly overdue: ReadonlyMap<string, string>;
  isConfirmed: boolean;
  confirmedVersion: number;
}

const heardKinds = ['Service', 'VirtualIP', 'AddressPool', 'Namespace', 'Node', 'Lease'] as const;
const heardOfGates = ['Pod', 'EndpointSlice'] as const;

/** What controllers hear of, where there are pods and where there are none. */
export function listKinds(hasPods: boolean): readonly Kind[] {
  return hasPods ? [...heardKinds, ...heardOfGates] : heardKinds;
}

const leases = toLeaseResource('vipnat');

/** A watch that is silent for longer is known to be: the controller no longer hears its own Lease. */
const noticedMs = 2000;

const maxInFlight = 3;

/** What a controller has at its start, besides the API. */
export interface Surroundings {
  readonly nowMs: () => number;
  readonly settings: Settings;
  readonly hasPods: boolean;
  readonly complain: (complaint: string) => void;
  /** Is told before each write what the API's version was when it was confirmed. */
  readonly confirm: (version: number) => void;
}

/** One controller that believes it leads: informers that lag, a queue, requests under way. */
export class SimulatedController {
  readonly #api: ObjectApi;
  readonly #decide: Decide;
  readonly #nowMs: () => number;
  readonly #cache: Cache;
  readonly #kinds: readonly Kind[];
  readonly #own: readonly StepKind[];
  readonly #liveness = new NodeLiveness();
  readonly #kindToPosition = new Map<Kind, number>();
  readonly #known: KnownObjects;
  readonly #due = new Set<string>();
  readonly #writes = new OwnWrites();
  readonly #repeated = new RepeatedWrites();
  readonly #counts = new WriteCounts();
  readonly #complain: (complaint: string) => void;
  readonly #confirm: (version: number) => void;
  /** What for, and until when by a clock that never jumps. */
  readonly #keyToWait = new Map<string, Pick<WaitStep, 'waitsFor' | 'untilMs' | 'isStill'>>();
  /** Since when the object of a key waits, turn after turn, by the same clock: by its life. */
  readonly #lifeToSince = new Map<string, number>();
  #inFlight: InFlight[] = [];
  /** A kind whose watch is silent, and nobody knows; and whether it does not run at all, and goes on later. */
  frozen: Kind | null = null;
  isHeldUp = false;
  /** How far its date is from that of the world. */
  dateOffsetMs = 0;

  constructor(api: ObjectApi, decide: Decide, { nowMs, settings, hasPods, complain, confirm }: Surroundings) {
    this.#complain = complain;
    this.#confirm = confirm;
    this.#api = api;
    this.#kinds = listKinds(hasPods);
    this.#own = hasPods ? kinds : serviceKinds;
    this.#cache = new Cache(settings, kinds);
    this.#known = new KnownObjects(this.#cache, settings.gateTypes);
    this.#decide = decide;
    this.#nowMs = nowMs;
    for (const kind of this.#kinds) {
      this.#kindToPosition.set(kind, api.log(kind).length);
      for (const [key, object] of api.list(kind)) this.#hear(kind, key, object);
    }
  }

  get due(): readonly string[] {
    const underWay = new Set(this.#inFlight.map(({ key }) => key));
    return [...this.#due].filter((key) => !underWay.has(key) && this.#judgeWrites(key).kind !== 'wait');
  }

  get inFlight(): number {
    return this.#inFlight.length;
  }

  hear(kind: Kind, most: number): void {
    if (kind === this.frozen) return;
    const from = this.#kindToPosition.get(kind) ?? 0;
    for (const { key, object } of this.#api.log(kind).slice(from, from + most)) {
      this.#kindToPosition.set(kind, (this.#kindToPosition.get(kind) ?? 0) + 1);
      this.#hear(kind, key, object);
    }
  }

  hearAll(): void {
    for (const kind of this.#kinds) this.hear(kind, Infinity);
  }

  /** One second, or less, has passed. */
  pass(): void {
    const [waiting] = this.#api.log('Lease').slice(this.#kindToPosition.get('Lease') ?? 0);
    const isFollowed = waiting === undefined || this.#nowMs() - waiting.atMs <= noticedMs;
    for (const node of this.#liveness.tick(this.#nowMs(), isFollowed))
      this.#affect(this.#cache.markUnresponsive(node, this.#liveness.getLastRenewal(node) ?? ''));
    for (const [key, { untilMs }] of this.#keyToWait)
      if (untilMs !== null && untilMs <= this.#nowMs()) this.#due.add(key);
  }

  /** Takes a key that is due, and decides. */
  take(key: string): void {
    if (this.#inFlight.length >= maxInFlight) return;
    this.#due.delete(key);
    const keyStatus = this.#judgeWrites(key);
    if (keyStatus.kind === 'read') this.#settle(key, keyStatus);
    else this.#step(key);
  }

  #step(key: string): void {
    this.#keyToWait.delete(key);
    const life = this.#toLife(key);
    const sinceMs = this.#lifeToSince.get(life) ?? this.#nowMs();
    const step = this.#decide(parseKey(key), { ...this.#world, waitedMs: this.#nowMs() - sinceMs });
    if (step.does === 'nothing') this.#lifeToSince.delete(life);
    if (step.does === 'wait') {
      const untilMs = step.untilMs === null ? null : step.untilMs - this.dateOffsetMs;
      this.#keyToWait.set(key, { ...step, untilMs });
      this.#lifeToSince.set(life, sinceMs);
    }
    if (step.does !== 'write') return;
    const waitMs = this.#waitForRepeated(key, step.write);
    if (waitMs > 0) this.#keyToWait.set(key, { waitsFor: 'time', untilMs: this.#nowMs() + waitMs });
    else this.#inFlight.push({ ...this.#toInFlight(key, step.write), overdue: step.overdue ?? new Map() });
  }

  #toInFlight(key: string, write: Write): Omit<InFlight, 'overdue'> {
    const object = `${write.kind}/${write.key}`;
    const readPath = getKind(parseKey(key).kind).findReadPath?.(write) ?? null;
    const isConfirmed = write.confirm.length === 0;
    const confirmedVersion = this.#api.version;
    return { key, write, object, before: this.#readVersion(object), readPath, isConfirmed, confirmedVersion };
  }

  /** Reads what became of a write. A watch that has not shown it for long is silent: all is listed again. */
  #settle(key: string, { write, path }: { readonly write: OwnWrite; readonly path: string }): void {
    const [before, after] = [this.#readVersion(write.object), this.#api.getVersion(path)];
    this.#writes.add(key, { ...write, before, after, untilMs: this.#nowMs() + shownMs });
    this.#due.add(key);
    if (write.after === undefined || before === after) return;
    if (this.frozen === 'VirtualIP') this.frozen = null;
    this.hear('VirtualIP', Infinity);
  }

  /** The next request of one of those under way. Answers what was written, and what came of it. */
  proceed(index: number, outcome: Outcome): string | null {
    const one = this.#inFlight[index];
    if (one === undefined) return null;
    if (!one.isConfirmed && outcome === 'done') {
      one.isConfirmed = one.write.confirm.every(
        ({ path, version }) => this.#api.getVersion(path) === version,
      );
      one.confirmedVersion = this.#api.version;
      if (one.isConfirmed) return null;
    }
    this.#inFlight = this.#inFlight.filter((each) => each !== one);
    this.#due.add(one.key);
    return one.isConfirmed ? this.#send(one, outcome) : null;
  }

  #send(one: InFlight, outcome: Outcome): string | null {
    const { key, write, object, before, readPath, confirmedVersion } = one;
    this.#confirm(confirmedVersion);
    const status = outcome === 'never sent' ? null : this.#api.handle(write);
    const own = { object, before, readPath, untilMs: this.#nowMs() + shownMs };
    if (outcome !== 'done') {
      if (readPath !== null) this.#writes.add(key, { ...own, after: undefined });
      return describe(write, status);
    }
    if (status !== null && status < 300) {
      const after = this.#api.list(write.kind).get(write.key)?.metadata.resourceVersion ?? null;
      this.#writes.add(key, { ...own, after });
      this.#affect(this.#cache.markOverdue(one.overdue));
    }
    this.#note(key, write, status ?? 0);
    return describe(write, status);
  }

  #waitForRepeated(key: string, write: Write): number {
    const kind = getKind(parseKey(key).kind);
    if (kind.mayRepeat === true) return 0;
    return this.#repeated.wait(this.#toLife(key), write, this.#nowMs());
  }

  #toLife(key: string): string {
    return toLife(getKind(parseKey(key).kind), parseKey(key), this.#world);
  }

  #note(key: string, write: Write, status: number): void {
    const kind = getKind(parseKey(key).kind);
    if (kind.mayRepeat === true || (status >= 300 && status !== 409)) return;
    const life = this.#toLife(key);
    this.#repeated.note(life, write, this.#nowMs());
    const complaint = this.#counts.note(life, write, this.#nowMs());
    if (complaint !== null) this.#complain(complaint);
  }

  /** Keys for which something would be written, though nothing says that they are to be looked at. */
  listForgotten(): string[] {
    const world = this.#world;
    return listKeys(this.#own, world)
      .filter((key) => this.#decide(key, world).does === 'write')
      .map(formatKey);
  }

  get #world(): ClusterView {
    return this.#cache.view(this.#nowMs() + this.dateOffsetMs);
  }

  #judgeWrites(key: string): KeyStatus {
    return this.#writes.judge(key, (object) => this.#readVersion(object), this.#nowMs());
  }

  #readVersion(object: string): string | null {
    return this.#known.readVersion(object);
  }

  #hear(kind: Kind, key: string, object: StoredObject | null): void {
    if (kind === 'Lease') this.#hearLease(key, object);
    else this.#affect(this.#known.change(kind, key, object));
  }

  #hearLease(key: string, object: StoredObject | null): void {
    const { after } = this.#known.note(leases, key, object);
    const lease = after === null ? null : parseNodeLease(after);
    if (lease === null) return;
    const { report, renewal, durationMs } = lease;
    this.#liveness.renewed(report.node, renewal, durationMs);
    if (this.#liveness.isLiving(report.node)) this.#affect(this.#cache.takeReport(report.node, report));
  }

  #affect({ keys, wakes }: Affected): void {
    for (const key of keys)
      if (this.#own.some(({ name }) => name === key.kind)) this.#due.add(formatKey(key));
    if (wakes.size === 0) return;
    const world = this.#world;
    for (const [key, { waitsFor, isStill }] of this.#keyToWait)
      if (isWoken(waitsFor, wakes) && isStill?.(world) !== true) this.#due.add(key);
  }
}

function describe({ method, path, body }: Write, status: number | null): string | null {
  return status === null ? null : `${method} ${path} ${JSON.stringify(body)}: ${status}`;
}
