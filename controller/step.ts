import { hashToNumber } from './allocate/seats.ts';
import {
  type VirtualIp,
  type AddressUser,
  finalizer,
  apiGroup,
  apiVersion,
  virtualIps,
  addressPools,
} from '../lib/api/vipnat.ts';
import { isDeleted, isUsed, findFinalizers } from './cache/parts.ts';
import { devices } from '../lib/api/device.ts';
import type { WrittenKind, ClusterView } from './cache/cache.ts';
import type { WaitsFor, Objects, Watch, Known, StepKey } from './cache/known.ts';
import type { Regarding } from '../lib/telemetry/events.ts';

/**
 * When a key writes. What only reports what is so anyway waits for others. And what is written again and again (S8) waits ever longer.
 *
 * Goal: what another program undoes, or the API drops without an error, costs a write a minute.
 * Tension: an owner who changes his mind asks for the same again, and gets it immediately.
 * Compromise: five times at full pace, then ever later. Two writes are the same if they differ in nothing but versions, moments and
 * messages: a message that names other nodes each time is the same news.
 */

/** How often steps are taken that can wait: half of what all steps together may write. */
const intervalMs = 100;

/** When keys with such a step have their turn: one after the other, in the order in which they came. */
export class LowPriority {
  readonly #keyToMs = new Map<string, number>();
  /** Of the last turn. */
  #lastMs = -Infinity;

  /** How long a key has to wait; 0 when its turn has come. It has to ask again then. */
  wait(key: string, nowMs: number): number {
    // One place for each key that waits: those that wait no longer have none.
    const dueMs = this.#keyToMs.get(key) ?? this.#lastMs + (this.#keyToMs.size + 1) * intervalMs;
    const earliestMs = Math.max(dueMs, this.#lastMs + intervalMs);
    if (earliestMs > nowMs) {
      this.#keyToMs.set(key, earliestMs);
      return earliestMs - nowMs;
    }
    this.#keyToMs.delete(key);
    this.#lastMs = nowMs;
    return 0;
  }

  /** There is nothing to wait for any more. */
  forget(key: string): void {
    this.#keyToMs.delete(key);
  }
}

/** So often at full pace. */
const freely = 5;

const firstWaitMs = 1000;
const longestWaitMs = 60_000;

/** What was not written for so long is written freely again. */
export const forgottenMs = 2 * 60_000;

/** After so many keys, those that are forgotten are dropped. */
const sweepAfter = 1000;

interface Repeated {
  count: number;
  /** How often in a row the messages were the same, too. */
  equal: number;
  whole: number;
  atMs: number;
}

/** Remembers what was written for keys of late. */
export class RepeatedWrites {
  readonly #keyToWrites = new Map<string, Map<number, Repeated>>();
  #noted = 0;

  /** How long a key has to wait before it makes a write; 0 for one that it may make now. */
  wait(key: string, write: Write, nowMs: number): number {
    const known = this.#find(key, write, nowMs);
    if (known === undefined || known.count < freely) return 0;
    const waitMs = Math.min(firstWaitMs * 2 ** (known.count - freely), longestWaitMs);
    return Math.max(0, known.atMs + waitMs - nowMs);
  }

  /** It has made a write, or another one was first. Answers whether it is word for word the sixth one or a later one. */
  note(key: string, write: Write, nowMs: number): boolean {
    const whole = hashWrite(write, volatile);
    const { count, equal, whole: before } = this.#find(key, write, nowMs) ?? { count: 0, equal: 0, whole };
    const repeated = { count: count + 1, equal: before === whole ? equal + 1 : 1, whole, atMs: nowMs };
    const writes = this.#keyToWrites.get(key) ?? new Map<number, Repeated>();
    this.#keyToWrites.set(key, writes.set(hashWrite(write, news), repeated));
    this.#noted += 1;
    if (this.#noted % sweepAfter === 0) this.#sweep(nowMs);
    return repeated.equal > freely;
  }

  /** Whether a key has not repeated itself of late. */
  isQuiet(key: string, nowMs: number): boolean {
    const writes = [...(this.#keyToWrites.get(key)?.values() ?? [])];
    return writes.every(({ count, atMs }) => count <= freely || nowMs - atMs >= forgottenMs);
  }

  #find(key: string, write: Write, nowMs: number): Repeated | undefined {
    const known = this.#keyToWrites.get(key)?.get(hashWrite(write, news));
    return known === undefined || nowMs - known.atMs >= forgottenMs ? undefined : known;
  }

  #sweep(nowMs: number): void {
    for (const [key, writes] of this.#keyToWrites) {
      for (const [text, { atMs }] of writes) if (nowMs - atMs >= forgottenMs) writes.delete(text);
      if (writes.size === 0) this.#keyToWrites.delete(key);
    }
  }
}

/** Fields that differ each time. */
const volatile = new Set(['resourceVersion', 'lastTransitionTime', 'releasedAt', 'renewal']);
const news: ReadonlySet<string> = new Set([...volatile, 'message']);

/** A number for what a write says, without some fields: texts of thousands of Services would take memory. */
function hashWrite({ method, path, body }: Write, without: ReadonlySet<string>): number {
  return hashToNumber(
    `${method} ${path} ${JSON.stringify(body, (name, value: unknown) => (without.has(name) ? undefined : value))}`,
  );
}

interface Fields {
  readonly [key: string]: Json;
}

interface ObjectName {
  readonly name: string;
  readonly namespace?: string;
}

/** An object that a step may write, as it was read. */
interface Written {
  readonly metadata: ObjectName & { readonly uid?: string; readonly resourceVersion: string };
}

/** Where objects of a kind are: those of one namespace, where they have any. */
const kindToPath: Readonly<Record<WrittenKind, (namespace: string) => string>> = {
  Service: (namespace) => `/api/v1/namespaces/${namespace}/services`,
  VirtualIP: () => virtualIps.path,
  AddressPool: () => addressPools.path,
  LoadBalancerDevice: () => devices.path,
  Lease: (namespace) => `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`,
  Pod: (namespace) => `/api/v1/namespaces/${namespace}/pods`,
  EndpointSlice: (namespace) => `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`,
};

/** Of an object: its metadata, with `metadata` as a merge patch, and other fields. */
export function patchMetadata(kind: WrittenKind, known: Written, metadata: Fields, more: Fields = {}): Write {
  const body = { metadata: { ...metadata, resourceVersion: known.metadata.resourceVersion }, ...more };
  return { ...toTarget(kind, known.metadata), method: 'PATCH', body };
}

/** Of an object: its status. */
export function patchStatus(
  kind: WrittenKind,
  object: Written,
  status: Fields,
  confirm: readonly Confirmation[] = [],
): Write {
  const write = patchMetadata(kind, object, {}, { status });
  return { ...write, path: `${write.path}/status`, confirm };
}

/** Gives an object vipnat's finalizer, or takes it off one that is deleted and not needed any more; null where neither is needed. */
export function keepFinalizer(
  kind: WrittenKind,
  object: Written & Pick<VirtualIp, 'metadata'>,
  isNeeded: () => boolean,
): WriteStep | null {
  const known = object.metadata.finalizers ?? [];
  const has = known.includes(finalizer);
  if (isDeleted(object) ? !has || isNeeded() : has) return null;
  const finalizers = has ? known.filter((each) => each !== finalizer) : [...known, finalizer];
  return toStep(patchMetadata(kind, object, { finalizers }));
}

/** Deletes it as it was read. */
export function deleteObject(kind: WrittenKind, { metadata }: Written): Write {
  const { uid = '', resourceVersion } = metadata;
  const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid, resourceVersion } };
  return { ...toTarget(kind, metadata), method: 'DELETE', body };
}

/** Creates it, unless one of its name exists. */
export function createObject(kind: WrittenKind, { name, namespace = '' }: ObjectName, body: Json): Write {
  return { ...toTarget(kind, { name, namespace }), method: 'POST', path: kindToPath[kind](namespace), body };
}

/** Creates it, unless one of its name exists: with the finalizer. */
export function createVirtualIp(name: string, spec: VirtualIp['spec']): Write {
  const metadata = { name, finalizers: [finalizer] };
  const body = { apiVersion: `${apiGroup}/${apiVersion}`, kind: 'VirtualIP', metadata, spec };
  return { ...createObject('VirtualIP', { name }, body), givesOf: spec.pool };
}

/**
 * What others see of it, and the finalizer that belongs to it then: the last one who leaves removes the finalizer, in one write. Of one that is
 * deleted, the next write does: the API shows what is gone as it was before that write, and so without those who have left.
 */
export function patchVirtualIp(
  virtualIp: VirtualIp,
  spec: Partial<VirtualIp['spec']>,
  confirm: readonly Confirmation[] = [],
): Write {
  const gives = spec.pool === undefined ? {} : { givesOf: spec.pool };
  const isLeft = isDeleted(virtualIp) && isUsed(virtualIp);
  const finalizers = isLeft ? null : findFinalizers({ ...virtualIp, spec: { ...virtualIp.spec, ...spec } });
  const metadata = finalizers === null ? {} : { finalizers };
  return { ...patchMetadata('VirtualIP', virtualIp, metadata, { spec }), confirm, ...gives };
}

/** What is known of a user is still so: nobody of this name, another one, or the same one unchanged. */
export function confirmUser({ namespace, name }: AddressUser, { services }: Known): Confirmation {
  const { path, key } = toTarget('Service', { namespace, name });
  return { path, version: services.get(key)?.metadata.resourceVersion ?? null };
}

/** That a VirtualIP is as it was read. */
export function confirmVirtualIp({ metadata }: VirtualIp): Confirmation {
  return { path: toTarget('VirtualIP', metadata).path, version: metadata.resourceVersion };
}

/** Where a VirtualIP is read that a write makes or changes. */
export function findVirtualIpPath({ kind, key }: Write): string | null {
  return kind === 'VirtualIP' ? toTarget(kind, { name: key }).path : null;
}

/** The kinds whose keys have no namespace: that of Leases is vipnat's own. */
function toTarget(kind: WrittenKind, { name, namespace = '' }: ObjectName) {
  const key = namespace === '' || kind === 'Lease' ? name : `${namespace}/${name}`;
  return { path: `${kindToPath[kind](namespace)}/${name}`, kind, key, confirm: [] as const };
}

/** What `JSON.stringify` takes. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/**
 * One request to the API. Its answer, when there is one, has the new version of the object; the key is due again once the
 * informer has seen that version or a later one. 409 means that somebody else was first: the informer receives it, then the key is due
 * again. 404 of a DELETE means that it is done.
 */
export interface Write {
  /** POST creates. PATCH is `application/merge-patch+json`. DELETE has DeleteOptions as its body. */
  readonly method: 'POST' | 'PATCH' | 'DELETE';
  /** PATCH is `application/strategic-merge-patch+json` instead: conditions are merged by their types. It has the uid that was read, too. */
  readonly isStrategic?: true;
  /** With `/status` where that is what is written. */
  readonly path: string;
  /** PATCH: `metadata.resourceVersion` is the version that was read. DELETE: `preconditions` has it, and the uid. */
  readonly body: Json;
  /** Whose version the answer has, and its key in the informer. It need not be the object that the step is for. */
  readonly kind: WrittenKind;
  readonly key: string;
  /**
   * Objects that are read again, at the API, right before this write: it is not made unless all of them have these versions. So a
   * controller that no longer leads, and knows an old state of one object, undoes nothing of another.
   */
  readonly confirm: readonly Confirmation[];
  /** The pool whose address it gives; left out where it gives none. */
  readonly givesOf?: string;
}

/** An object as it was read. */
export interface Confirmation {
  readonly path: string;
  /** Null: it is not there (404). */
  readonly version: string | null;
}

/** An Event for the object of the key: recorded when the write is done. */
export interface StepEvent {
  readonly type: 'Normal' | 'Warning';
  /** Published: `vipnat help events` lists them. */
  readonly reason:
    | 'AddressAllocated'
    | 'AddressReady'
    | 'AddressReleased'
    | 'AddressInUse'
    | 'AddressKept'
    | 'NoAddress'
    | 'NotAsAsked'
    | 'PoolRefused'
    | 'NodeReportsAddress'
    | 'GateTimedOut'
    | 'PortNotSupported'
    | 'DeviceReady'
    | 'DeviceFailed'
    | 'DeviceRefused';
  readonly message: string;
}

/** The one next step of an object: one write, or what it waits for. No state between two writes that a restart would not find again (docs/design.md). */
export type Step =
  | {
      readonly does: 'write';
      readonly write: Write;
      readonly event: StepEvent | null;
      /** It only reports what is so anyway: the steps of other keys go first. */
      readonly isLowPriority?: true;
      /** It lets this pool go: not while an address of the pool may be given that no list shows yet. */
      readonly endsPool?: string;
      /** When it is done, gates do not wait for these nodes until they report these versions of early EndpointSlices. */
      readonly overdue?: ReadonlyMap<string, string>;
    }
  | {
      readonly does: 'wait';
      readonly waitsFor: WaitsFor;
      /** For logs and people. */
      readonly why: string;
      /**
       * A date, in milliseconds since 1970: then the key is due anyway. It is reckoned from `ClusterView.nowMs`: the key waits for the
       * difference by a clock that does not jump. Null: never by itself.
       */
      readonly untilMs: number | null;
      /** Asked when what the key waits for has happened: whether that is nothing to it. Cheap, as ten thousand keys may wait. */
      readonly isStill?: (view: ClusterView) => boolean;
    }
  | { readonly does: 'nothing' };

/** Nothing is wanted that is not so. */
export const nothing: Step = { does: 'nothing' };

/** One that writes. */
export type WriteStep = Extract<Step, { does: 'write' }>;

/** Makes one. */
export function toStep(write: Write, event: StepEvent | null = null): WriteStep {
  return { does: 'write', write, event };
}

/** Objects as a patch has them: without what is undefined. */
export function toJson(value: unknown): Json {
  return JSON.parse(JSON.stringify(value)) as Json;
}

/** What is done for one kind of keys. */
export interface Kind {
  /** Of its keys, and of the objects that it writes, unless a write says otherwise. */
  readonly name: string;
  /** Each of these objects has a key of the kind. */
  readonly source: keyof Objects;
  /** What its keys depend on. */
  readonly watches: readonly Watch[];
  /** The one next step of a key. Pure; it costs what the key's own objects and its pool cost, whatever else there is. */
  readonly next: (key: string, view: ClusterView) => Step;
  /** All keys, where they are not those of its objects. */
  readonly listKeys?: (known: Known) => Iterable<string>;
  /** What its events are about, as they name it; null where they are about nothing. */
  readonly subject: Pick<Regarding, 'apiVersion' | 'kind'> | null;
  /** The namespace that a key is of: namespaces take turns. Unless given, the one in the key. */
  readonly findTenant?: (key: string, known: Known) => string;
  /**
   * Where to read what a step has written, if no list shows it; null for a step's own object. What its next step knows of that is as
   * old as the version which that step names, and the API refuses an old one. Unless given, no step writes anything else.
   */
  readonly findReadPath?: (write: Write) => string | null;
  /** Its steps may be the same again, at any pace. */
  readonly mayRepeat?: true;
}

/** A key as the queue has it: `Service/NAMESPACE/NAME`, `VirtualIP/NAME`. */
export function formatKey({ kind, key }: StepKey): string {
  return `${kind}/${key}`;
}

/** The key of such a text. */
export function parseKey(text: string): StepKey {
  const at = text.indexOf('/');
  return { kind: text.slice(0, at), key: text.slice(at + 1) };
}

/** All keys of some kinds. */
export function listKeys(kinds: readonly Kind[], known: Known): StepKey[] {
  return kinds.flatMap(({ name: kind, source, listKeys: list }) =>
    [...(list?.(known) ?? known[source].keys())].map((key) => ({ kind, key })),
  );
}
