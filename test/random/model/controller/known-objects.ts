import type { Cache } from '../../../../controller/cache/cache.ts';
import type { Resource, ApiObject } from '../../../../lib/kubernetes/client.ts';
import { type Pod, toPodResource, earlySlices } from '../../../../lib/api/endpoints.ts';
import type { Kind, StoredObject } from '../../../support/fakes/object-api.ts';
import type { Affected } from '../../../../controller/cache/known.ts';
import { services } from '../../../../lib/api/service.ts';
import { virtualIps, addressPools } from '../../../../lib/api/vipnat.ts';
import { namespaces, nodes } from '../../../../lib/api/node.ts';
import { devices } from '../../../../lib/api/device.ts';

/** What the informers of a controller know, and tell its cache. */
export class KnownObjects {
  readonly #cache: Cache;
  readonly #pods: Resource<Pod>;
  /** By `KIND/KEY`. */
  readonly #objects = new Map<string, ApiObject>();

  constructor(cache: Cache, gateTypes: ReadonlySet<string>) {
    this.#cache = cache;
    this.#pods = toPodResource(gateTypes);
  }

  /** The version of an object, `KIND/KEY`, as it was told last; null for none. */
  readVersion(object: string): string | null {
    return this.#objects.get(object)?.metadata.resourceVersion ?? null;
  }

  /** What a change means, for all kinds but Leases. */
  change(kind: Exclude<Kind, 'Lease'>, key: string, object: StoredObject | null): Affected {
    if (kind === 'ConfigMap') throw new Error('no controller follows ConfigMaps');
    const kindToTake = {
      Service: () => this.#cache.take('services', this.note(services, key, object)),
      VirtualIP: () => this.#cache.take('virtualIps', this.note(virtualIps, key, object)),
      AddressPool: () => this.#cache.take('pools', this.note(addressPools, key, object)),
      Namespace: () => this.#cache.take('namespaces', this.note(namespaces, key, object)),
      Node: () => this.#cache.take('nodes', this.note(nodes, key, object)),
      Pod: () => this.#cache.take('pods', this.note(this.#pods, key, object)),
      EndpointSlice: () => this.#cache.take('earlySlices', this.note(earlySlices, key, object)),
      LoadBalancerDevice: () => this.#cache.take('devices', this.note(devices, key, object)),
    };
    return kindToTake[kind]();
  }

  note<T extends ApiObject>(
    { kind, schema }: Resource<T>,
    key: string,
    object: StoredObject | null,
  ): { key: string; before: T | null; after: T | null } {
    const before = (this.#objects.get(`${kind}/${key}`) ?? null) as T | null;
    const after = object === null ? null : schema.parse(object);
    if (after === null) this.#objects.delete(`${kind}/${key}`);
    else this.#objects.set(`${kind}/${key}`, after);
    return { key, before, after };
  }
}
