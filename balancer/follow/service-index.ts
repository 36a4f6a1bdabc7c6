import { type Family, families } from '../../lib/address/address.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { parseObjectName } from '../../lib/services/address-name.ts';
import { type VirtualIp } from '../../lib/services/objects.ts';
import { type EndpointSlice, type Service, serviceNameLabel } from '../../lib/services/services.ts';
import { type BalancedService } from '../decide/port-balance.ts';

/** Of the objects of all kinds: what belongs to which Service, and which Services may be balanced otherwise since last asked. Services are named `NAMESPACE/NAME`. */
export class ServiceIndex {
  readonly #services = new Map<string, Service>();
  readonly #serviceToSlices = new Map<string, Map<string, EndpointSlice>>();
  /** Service to the addresses that VirtualIPs give it, each with the UID that it is given to. */
  readonly #serviceToAddresses = new Map<string, Map<string, string>>();
  readonly #vips = new Set<string>();
  readonly #changed = new Set<string>();
  readonly #node: string;
  #zone: string | null = null;

  constructor(node: string) {
    this.#node = node;
  }

  /** The addresses of all Services. */
  get vips(): ReadonlySet<string> {
    return this.#vips;
  }

  /** Of this node, as endpoints on it say; null while none does. */
  get zone(): string | null {
    return this.#zone;
  }

  /** The Services that have an address. */
  get balanced(): readonly string[] {
    return [...this.#serviceToAddresses.keys()];
  }

  /** Takes what has happened to Services. */
  takeServices(changes: readonly Change<Service>[]): void {
    for (const { key, after } of changes) {
      if (after === null) this.#services.delete(key);
      else this.#services.set(key, after);
      this.#changed.add(key);
    }
  }

  /** Takes what has happened to EndpointSlices. */
  takeSlices(changes: readonly Change<EndpointSlice>[]): void {
    for (const { key, before, after } of changes) {
      if (before !== null) this.#serviceToSlices.get(nameOwner(before))?.delete(key);
      if (before !== null) this.#changed.add(nameOwner(before));
      if (after !== null) this.#addSlice(key, after);
    }
  }

  /** Takes what has happened to VirtualIPs. */
  takeVirtualIps(changes: readonly Change<VirtualIp>[]): void {
    for (const { before, after } of changes) {
      if (before !== null) this.#removeAddress(before);
      if (after !== null) this.#addAddress(after);
    }
  }

  /** The Services that may be balanced otherwise since this was last asked, and all that are balanced if `isAll`. */
  takeChanged(isAll: boolean): readonly string[] {
    const changed = isAll
      ? [...new Set([...this.#changed, ...this.#serviceToAddresses.keys()])]
      : [...this.#changed];
    this.#changed.clear();
    return changed;
  }

  /** A Service as it is to be balanced; null where it is not there, or has no address. */
  find(key: string): BalancedService | null {
    const service = this.#services.get(key);
    const addresses = this.#serviceToAddresses.get(key);
    if (service === undefined || addresses === undefined || service.spec.type !== 'LoadBalancer') return null;
    const own = [...addresses].filter(([, uid]) => uid === service.metadata.uid);
    const ofFamily = (family: Family) =>
      own.map(([text]) => text).filter((text) => familyOf(text) === family);
    return {
      service,
      slices: [...(this.#serviceToSlices.get(key)?.values() ?? [])],
      addresses: Object.fromEntries(families.map((family) => [family, ofFamily(family).sort()])) as Record<
        Family,
        string[]
      >,
    };
  }

  #addSlice(key: string, slice: EndpointSlice): void {
    const owner = nameOwner(slice);
    const slices = this.#serviceToSlices.get(owner) ?? new Map<string, EndpointSlice>();
    this.#serviceToSlices.set(owner, slices.set(key, slice));
    this.#changed.add(owner);
    const here = slice.endpoints?.find(({ nodeName }) => nodeName === this.#node);
    const zone = here?.zone ?? '';
    if (zone === '' || zone === this.#zone) return;
    this.#zone = zone;
    for (const service of this.#serviceToAddresses.keys()) this.#changed.add(service);
  }

  #removeAddress({ metadata, spec }: VirtualIp): void {
    const text = parseObjectName(metadata.name)?.text ?? '';
    this.#vips.delete(text);
    for (const { namespace, name } of spec.services) {
      const key = `${namespace}/${name}`;
      const addresses = this.#serviceToAddresses.get(key);
      addresses?.delete(text);
      if (addresses?.size === 0) this.#serviceToAddresses.delete(key);
      this.#changed.add(key);
    }
  }

  /** An object whose name is no address is nobody's. */
  #addAddress({ metadata, spec }: VirtualIp): void {
    const address = parseObjectName(metadata.name);
    if (address === null) return;
    this.#vips.add(address.text);
    for (const { namespace, name, uid } of spec.services) {
      const key = `${namespace}/${name}`;
      const addresses = this.#serviceToAddresses.get(key) ?? new Map<string, string>();
      this.#serviceToAddresses.set(key, addresses.set(address.text, uid));
      this.#changed.add(key);
    }
  }
}

function familyOf(address: string): Family {
  return address.includes(':') ? 'ipv6' : 'ipv4';
}

function nameOwner({ metadata }: EndpointSlice): string {
  return `${metadata.namespace}/${metadata.labels?.[serviceNameLabel] ?? ''}`;
}
