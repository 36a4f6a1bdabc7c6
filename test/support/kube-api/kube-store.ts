export interface KubeObject {
  readonly metadata: { readonly name: string; readonly [field: string]: unknown };
  readonly [field: string]: unknown;
}

const kinds = [
  ...(['EndpointSlice', 'Service', 'VirtualIP', 'AddressPool', 'Node', 'Namespace', 'Lease'] as const),
  ...(['Pod', 'Secret', 'MutatingWebhookConfiguration'] as const),
];

export type Kind = (typeof kinds)[number];

export interface Event {
  readonly version: number;
  readonly kind: Kind;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: KubeObject;
}

/** What several servers of one control plane have in common, as etcd does. */
export class KubeStore {
  readonly objects = Object.fromEntries(
    kinds.map((kind) => [kind, new Map<string, KubeObject>()]),
  ) as Readonly<Record<Kind, Map<string, KubeObject>>>;
  readonly events: Event[] = [];
  readonly watchers = new Set<(event: Event) => void>();
  version = 100;
  /** Before this version nothing is remembered. */
  oldest = 0;

  put(kind: Kind, object: KubeObject): void {
    const type = this.objects[kind].has(toStoreKey(object)) ? 'MODIFIED' : 'ADDED';
    this.#change(kind, type, object);
  }

  /** Removes an object, see `toStoreKey`. */
  remove(kind: Kind, key: string): void {
    const object = this.objects[kind].get(key);
    if (object !== undefined) this.#change(kind, 'DELETED', object);
  }

  /** An object changes while nobody watches: no event tells of it. */
  putUnseen(kind: Kind, { metadata, ...rest }: KubeObject): void {
    this.version += 1;
    const object = { ...rest, metadata: { ...metadata, resourceVersion: String(this.version) } };
    this.objects[kind].set(metadata.name, object);
    this.oldest = this.version;
  }

  /** The version moves on by what happens elsewhere in the cluster. */
  age(): void {
    this.version += 1000;
  }

  #change(kind: Kind, type: Event['type'], { metadata, ...rest }: KubeObject): void {
    this.version += 1;
    const object = { ...rest, metadata: { ...metadata, resourceVersion: String(this.version) } };
    if (type === 'DELETED') this.objects[kind].delete(toStoreKey(object));
    else this.objects[kind].set(toStoreKey(object), object);
    const event = { version: this.version, kind, type, object };
    this.events.push(event);
    for (const tell of this.watchers) tell(event);
  }
}

/** An object's key: its name, behind its namespace where that is not `default`. */
function toStoreKey({ metadata: { name, namespace = 'default' } }: Pick<KubeObject, 'metadata'>): string {
  return namespace === 'default' ? name : `${String(namespace)}/${name}`;
}

export function makeSlice(
  addresses: readonly string[],
  more: { readonly name?: string; readonly port?: number; readonly addressType?: string } = {},
): KubeObject {
  const { name = 'kubernetes', port = 6443, addressType = 'IPv4' } = more;
  return {
    metadata: { name, namespace: 'default', labels: { 'kubernetes.io/service-name': 'kubernetes' } },
    addressType,
    endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
    ports: [{ name: 'https', port, protocol: 'TCP' }],
  };
}

/** The Service as the control plane makes it. */
export function makeService(spec: object = {}): KubeObject {
  return {
    metadata: { name: 'kubernetes', namespace: 'default' },
    spec: { clusterIP: '10.96.0.1', clusterIPs: ['10.96.0.1'], sessionAffinity: 'None', ...spec },
  };
}
