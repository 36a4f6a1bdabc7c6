/** Objects as an apiserver keeps them: versions, generations, finalizers, subresources, merge patches, and what watches hear. */
import { type Write } from '../../../controller/reconcile/step.ts';

/** Kinds of objects. */
export type Kind = 'Service' | 'VirtualIP' | 'AddressPool' | 'Namespace' | 'Node' | 'Lease';

type Fields = Readonly<Record<string, unknown>>;

/** An object as it is kept. */
export interface StoredObject {
  readonly metadata: Fields & {
    readonly name: string;
    readonly namespace?: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly generation: number;
    readonly deletionTimestamp?: string;
    readonly finalizers?: readonly string[];
  };
  readonly spec?: Fields;
  readonly status?: Fields;
}

/** What a watch hears: an object that came or changed, or null for one that went. */
export interface LogEntry {
  readonly version: number;
  readonly key: string;
  readonly object: StoredObject | null;
  readonly atMs: number;
}

/** What just changed. */
export interface Written {
  readonly kind: Kind;
  readonly key: string;
  readonly before: StoredObject | null;
  readonly after: StoredObject | null;
}

const paths: readonly [RegExp, Kind][] = [
  [/^\/api\/v1\/namespaces\/([^/]+)\/services\/([^/]+)(\/status)?$/, 'Service'],
  [/^\/apis\/vipnat\.io\/v1alpha1\/virtualips(?:\/([^/]+))?(\/status)?$/, 'VirtualIP'],
  [/^\/apis\/vipnat\.io\/v1alpha1\/addresspools(?:\/([^/]+))?(\/status)?$/, 'AddressPool'],
];

/** Kinds whose generation counts changes of their spec. */
const counted: ReadonlySet<Kind> = new Set(['VirtualIP', 'AddressPool']);

/** One cluster's objects. */
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

  /** The version of the object of a path; null for none. */
  getVersion(path: string): string | null {
    const { kind, key } = parsePath(path);
    return this.#map(kind).get(key)?.metadata.resourceVersion ?? null;
  }

  /** A request as a step has it. Answers the HTTP status. */
  handle({ method, path, body }: Write): number {
    const { kind, key, isStatus } = parsePath(path);
    const fields = body as Fields;
    if (method === 'POST') return this.create(kind, (fields['metadata'] as { name: string }).name, fields);
    if (method === 'PATCH') return this.patch(kind, key, fields, isStatus);
    return this.remove(kind, key, fields['preconditions'] as Fields);
  }

  create(kind: Kind, key: string, fields: Fields): number {
    if (this.#map(kind).has(key)) return 409;
    const [first = '', name] = key.split('/');
    const metadata = {
      ...(fields['metadata'] as Fields | undefined),
      ...(name === undefined ? { name: first } : { namespace: first, name }),
      uid: `uid-${this.#version}`,
      generation: 1,
      resourceVersion: '',
      creationTimestamp: toTime(this.#nowMs()),
    };
    const { spec, status } = fields as { spec?: Fields; status?: Fields };
    // What has a status subresource is created without one.
    const kept = counted.has(kind) || status === undefined ? {} : { status };
    this.#put(kind, key, { metadata, ...(spec === undefined ? {} : { spec }), ...kept });
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
      const metadata = { ...before.metadata, deletionTimestamp: toTime(this.#nowMs()) };
      this.#put(kind, key, { ...before, metadata });
    }
    return 200;
  }

  /** All but the status. */
  #update(kind: Kind, key: string, before: StoredObject, { metadata, spec }: StoredObject): number {
    const [were, are] = [before, { metadata }].map((each) => each.metadata.finalizers ?? []);
    const isTerminating = before.metadata.deletionTimestamp !== undefined;
    if (isTerminating && are?.some((each) => were?.includes(each) !== true) === true) return 422;
    if (isTerminating && are?.length === 0) {
      this.#drop(kind, key);
      return 200;
    }
    const generation = before.metadata.generation + (isCounted(kind, spec, before.spec) ? 1 : 0);
    const kept = spec === undefined ? {} : { spec };
    const after = { ...before, metadata: { ...metadata, generation }, ...kept };
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

function isCounted(kind: Kind, spec: Fields | undefined, before: Fields | undefined): boolean {
  return counted.has(kind) && JSON.stringify(spec) !== JSON.stringify(before);
}

/** As kube-apiserver does for a type that is not LoadBalancer (registry/core/service, dropTypeDependentFields). */
function clearBalancer(service: StoredObject): StoredObject {
  if (service.spec?.['type'] === 'LoadBalancer') return service;
  const spec = { ...service.spec };
  delete spec['loadBalancerClass'];
  return { ...service, spec, status: { ...service.status, loadBalancer: {} } };
}

/** RFC 7386. */
function merge(target: unknown, patch: unknown): unknown {
  if (!isFields(patch)) return patch;
  const merged = new Map(isFields(target) ? Object.entries(target) : []);
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) merged.delete(name);
    else merged.set(name, merge(merged.get(name), value));
  }
  return Object.fromEntries(merged);
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
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
