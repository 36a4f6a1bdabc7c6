/** Objects as an apiserver keeps them: versions, generations, finalizers, subresources, merge patches, and what watches hear. */
import type { WrittenKind } from '../../../controller/cache/cache.ts';
import { type Fields, mergeConditions, merge } from './merge-patch.ts';
import type { Write } from '../../../controller/step.ts';

export type Kind = WrittenKind | 'Namespace' | 'Node' | 'Lease' | 'ConfigMap';

export interface StoredObject {
  readonly metadata: Fields & {
    readonly name: string;
    readonly namespace?: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly generation: number;
    readonly deletionTimestamp?: string;
    readonly finalizers?: readonly string[];
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec?: Fields;
  readonly status?: Fields;
  readonly addressType?: string;
  readonly endpoints?: readonly Fields[];
  readonly ports?: readonly Fields[];
}

/** What a watch hears: an object that came or changed, or null for one that went. */
interface LogEntry {
  readonly version: number;
  readonly key: string;
  readonly object: StoredObject | null;
  readonly atMs: number;
}

export interface Written {
  readonly kind: Kind;
  readonly key: string;
  readonly before: StoredObject | null;
  readonly after: StoredObject | null;
}

const paths: readonly [RegExp, Kind][] = [
  [/^\/api\/v1\/namespaces\/([^/]+)\/services\/([^/]+)(\/status)?$/, 'Service'],
  [/^\/api\/v1\/namespaces\/([^/]+)\/configmaps\/([^/]+)$/, 'ConfigMap'],
  [/^\/api\/v1\/namespaces\/([^/]+)\/pods\/([^/]+)(\/status)?$/, 'Pod'],
  [/^\/apis\/discovery\.k8s\.io\/v1\/namespaces\/([^/]+)\/endpointslices(?:\/([^/]+))?$/, 'EndpointSlice'],
  [/^\/apis\/vipnat\.io\/v1alpha1\/virtualips(?:\/([^/]+))?(\/status)?$/, 'VirtualIP'],
  [/^\/apis\/vipnat\.io\/v1alpha1\/addresspools(?:\/([^/]+))?(\/status)?$/, 'AddressPool'],
  [/^\/apis\/vipnat\.io\/v1alpha1\/loadbalancerdevices(?:\/([^/]+))?(\/status)?$/, 'LoadBalancerDevice'],
  [/^\/apis\/coordination\.k8s\.io\/v1\/namespaces\/([^/]+)\/leases(?:\/([^/]+))?$/, 'Lease'],
];

/** Kinds whose generation counts changes of what is wanted. */
const counted: ReadonlySet<Kind> = new Set([
  ...(['VirtualIP', 'AddressPool', 'EndpointSlice', 'LoadBalancerDevice'] as const),
]);

export class ObjectApi {
  readonly #objects = new Map<Kind, Map<string, StoredObject>>();
  readonly #logs = new Map<Kind, LogEntry[]>();
  readonly #nowMs: () => number;
  readonly #onWrite: (written: Written) => void;
  #version = 100;

  constructor(nowMs: () => number, onWrite: (written: Written) => void) {
    this.#nowMs = nowMs;
    this.#onWrite = onWrite;
  }

  /** Of the last write of any kind. */
  get version(): number {
    return this.#version;
  }

  list(kind: Kind): ReadonlyMap<string, StoredObject> {
    return this.#map(kind);
  }

  log(kind: Kind): readonly LogEntry[] {
    return this.#logs.get(kind) ?? [];
  }

  find(path: string): StoredObject | null {
    const { kind, key } = parsePath(path);
    return this.#map(kind).get(key) ?? null;
  }

  getVersion(path: string): string | null {
    return this.find(path)?.metadata.resourceVersion ?? null;
  }

  /** A request as a step has it. Answers the HTTP status. */
  handle({ method, path, body, isStrategic }: Write): number {
    const { kind, key, isStatus } = parsePath(path);
    const fields = body as Fields;
    const { name = '', uid } = (fields['metadata'] ?? {}) as { name?: string; uid?: string };
    // The path of a collection has the namespace, if there is one.
    if (method === 'POST') return this.create(kind, key === '' ? name : `${key}/${name}`, fields);
    const before = this.#map(kind).get(key);
    if (uid !== undefined && before !== undefined && uid !== before.metadata.uid) return 409;
    if (method === 'PATCH')
      return this.patch(kind, key, isStrategic === true ? mergeConditions(before, fields) : fields, isStatus);
    return this.remove(kind, key, fields['preconditions'] as Fields);
  }

  create(kind: Kind, key: string, fields: Fields): number {
    if (this.#map(kind).has(key)) return 409;
    const [first = '', name] = key.split('/');
    const metadata = {
      uid: `uid-${this.#version}`,
      ...(fields['metadata'] as Fields | undefined),
      ...(name === undefined ? { name: first } : { namespace: first, name }),
      generation: 1,
      resourceVersion: '',
      creationTimestamp: toTime(this.#nowMs()),
    };
    const { status, ...wanted } = fields as Partial<StoredObject>;
    // What has a status subresource is created without one.
    const kept = counted.has(kind) || status === undefined ? {} : { status };
    this.#put(kind, key, { ...wanted, metadata, ...kept });
    return 201;
  }

  patch(kind: Kind, key: string, patch: Fields, isStatus = false): number {
    const before = this.#map(kind).get(key);
    if (before === undefined) return 404;
    const asked = (patch['metadata'] as Fields | undefined)?.['resourceVersion'];
    if (asked !== undefined && asked !== before.metadata.resourceVersion) return 409;
    const merged = merge(before, patch) as StoredObject;
    if (!isStatus) return this.#update(kind, key, before, merged);
    this.#put(kind, key, { ...before, ...(merged.status === undefined ? {} : { status: merged.status }) });
    return 200;
  }

  remove(kind: Kind, key: string, preconditions?: Fields): number {
    const before = this.#map(kind).get(key);
    if (before === undefined) return 404;
    const { uid, resourceVersion, finalizers, deletionTimestamp } = before.metadata;
    const isAsked = (name: string, value: string) => (preconditions?.[name] ?? value) === value;
    if (!isAsked('uid', uid) || !isAsked('resourceVersion', resourceVersion)) return 409;
    if ((finalizers ?? []).length === 0) this.#drop(kind, key);
    else if (deletionTimestamp === undefined) {
      // What is wanted of it changes: apiserver, registry/generic/registry, markAsDeleting.
      const generation = before.metadata.generation + (counted.has(kind) ? 1 : 0);
      const metadata = { ...before.metadata, generation, deletionTimestamp: toTime(this.#nowMs()) };
      this.#put(kind, key, { ...before, metadata });
    }
    return 200;
  }

  #update(kind: Kind, key: string, before: StoredObject, merged: StoredObject): number {
    const { metadata } = merged;
    const [were, are] = [before, { metadata }].map((each) => each.metadata.finalizers ?? []);
    const isTerminating = before.metadata.deletionTimestamp !== undefined;
    if (isTerminating && are?.some((each) => were?.includes(each) !== true) === true) return 422;
    if (isTerminating && are?.length === 0) {
      this.#drop(kind, key);
      return 200;
    }
    const generation = before.metadata.generation + (isCounted(kind, merged, before) ? 1 : 0);
    const { status } = before;
    const wanted = { ...merged, metadata: { ...metadata, generation } };
    const after = status === undefined ? wanted : { ...wanted, status };
    this.#put(kind, key, kind === 'Service' ? clearBalancer(after) : after);
    return 200;
  }

  #map(kind: Kind): Map<string, StoredObject> {
    const known = this.#objects.get(kind) ?? new Map<string, StoredObject>();
    this.#objects.set(kind, known);
    return known;
  }

  #put(kind: Kind, key: string, object: StoredObject): void {
    const before = this.#map(kind).get(key) ?? null;
    // As an apiserver does: what changes nothing has no new version.
    if (
      before !== null &&
      JSON.stringify(before) ===
        JSON.stringify({
          ...object,
          metadata: { ...object.metadata, resourceVersion: before.metadata.resourceVersion },
        })
    )
      return;
    this.#version += 1;
    const after = { ...object, metadata: { ...object.metadata, resourceVersion: String(this.#version) } };
    this.#map(kind).set(key, after);
    this.#note(kind, key, { before, after });
  }

  #drop(kind: Kind, key: string): void {
    const before = this.#map(kind).get(key) ?? null;
    this.#version += 1;
    this.#map(kind).delete(key);
    this.#note(kind, key, { before, after: null });
  }

  #note(kind: Kind, key: string, { before, after }: Pick<Written, 'before' | 'after'>): void {
    const log = this.#logs.get(kind) ?? [];
    log.push({ version: this.#version, key, object: after, atMs: this.#nowMs() });
    this.#logs.set(kind, log);
    this.#onWrite({ kind, key, before, after });
  }
}

function isCounted(kind: Kind, after: StoredObject, before: StoredObject): boolean {
  const print = ({ spec, endpoints, ports }: StoredObject) => JSON.stringify([spec, endpoints, ports]);
  return counted.has(kind) && print(after) !== print(before);
}

/** As kube-apiserver does for a type that is not LoadBalancer (registry/core/service, dropTypeDependentFields). */
function clearBalancer(service: StoredObject): StoredObject {
  if (service.spec?.['type'] === 'LoadBalancer') return service;
  const spec = { ...service.spec };
  delete spec['loadBalancerClass'];
  return { ...service, spec, status: { ...service.status, loadBalancer: {} } };
}

function parsePath(path: string): { kind: Kind; key: string; isStatus: boolean } {
  for (const [pattern, kind] of paths) {
    const found = pattern.exec(path);
    if (found === null) continue;
    const parts = (found.slice(1) as (string | undefined)[]).filter(
      (part) => part !== undefined && part !== '/status',
    );
    return { kind, key: parts.join('/'), isStatus: path.endsWith('/status') };
  }
  throw new Error(`no path of the API: ${path}`);
}

function toTime(ms: number): string {
  return new Date(ms).toISOString();
}
