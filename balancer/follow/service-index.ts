import { type Family, families } from '../../lib/address/address.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { parseObjectName } from '../../lib/services/address-name.ts';
import { type VirtualIp } from '../../lib/services/objects.ts';
import { type EarlySlice, nameEarlyOwner } from '../../lib/services/early-slices.ts';
import { type EndpointSlice, type Service, serviceNameLabel } from '../../lib/services/services.ts';
import { readWeights } from '../../lib/services/weights.ts';
import { type BalancedService, isLeftToKubeProxy } from '../decide/port-balance.ts';
import { EarlyEndpoints } from './early-endpoints.ts';

/** Of the objects of all kinds: what belongs to which Service, and which Services may be balanced otherwise since last asked. Services are named `NAMESPACE/NAME`. */
export class ServiceIndex {
  readonly #services = new Map<string, Service>();
  readonly #serviceToSlices = new Map<string, Map<string, EndpointSlice>>();
  readonly #serviceToEarlySlices = new Map<string, Map<string, EarlySlice>>();
  /** What counts of early slices. */
  readonly early = new EarlyEndpoints();
  /** Service to the addresses that VirtualIPs give it, each with the UID that it is given to. */
  readonly #serviceToAddresses = new Map<string, Map<string, string>>();
  readonly #vips = new Set<string>();
  /** Addresses to the Services that VirtualIPs give them to. */
  readonly #vipToServices = new Map<string, VirtualIp['spec']['services']>();
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

  /** Whether a Service has an address, and is left to kube-proxy. */
  isLeft(key: string): boolean {
    const found = this.find(key);
    return found !== null && isLeftToKubeProxy(found.service);
  }

  /** The addresses of some Services. */
  listAddresses(isChosen: (service: Service) => boolean): ReadonlySet<string> {
    const found = this.balanced.map((key) => this.find(key)).filter((one) => one !== null);
    const chosen = found.filter(({ service }) => isChosen(service));
    return new Set(chosen.flatMap(({ addresses }) => families.flatMap((family) => addresses[family])));
  }

  /** Takes what has happened to Services. */
  takeServices(changes: readonly Change<Service>[]): void {
    for (const { key, after } of changes) {
      if (after === null) this.#services.delete(key);
      else this.#services.set(key, after);
      this.#changed.add(key);
      // One of them guards the address for all, by what each of them asks.
      for (const vip of this.#serviceToAddresses.get(key)?.keys() ?? []) this.touch(this.#listSharing(vip));
    }
  }

  #listSharing(vip: string): string[] {
    return (this.#vipToServices.get(vip) ?? []).map(nameService);
  }

  /** Whether a Service is the first of those that share an address, and none of them is left to kube-proxy. */
  #guards(key: string, vip: string): boolean {
    const sharing = this.#listSharing(vip);
    const left = sharing.map((one) => this.#services.get(one)).filter((one) => one && isLeftToKubeProxy(one));
    return sharing[0] === key && left.length === 0;
  }

  /** Takes what has happened to EndpointSlices. */
  takeSlices(changes: readonly Change<EndpointSlice>[]): void {
    for (const { key, before, after } of changes) {
      if (before !== null) this.#serviceToSlices.get(nameOwner(before))?.delete(key);
      if (before !== null) this.#changed.add(nameOwner(before));
      if (after !== null) this.#addSlice(key, after);
    }
  }

  /** Takes what has happened to early EndpointSlices. */
  takeEarlySlices(changes: readonly Change<EarlySlice>[]): void {
    const owners = new Set<string>();
    for (const { key, before, after } of changes) {
      for (const slice of [before, after]) if (slice !== null) owners.add(nameEarlyOwner(slice));
      if (before !== null) this.#serviceToEarlySlices.get(nameEarlyOwner(before))?.delete(key);
      if (after === null) continue;
      const owner = nameEarlyOwner(after);
      const slices = this.#serviceToEarlySlices.get(owner) ?? new Map<string, EarlySlice>();
      this.#serviceToEarlySlices.set(owner, slices.set(key, after));
    }
    for (const owner of owners) this.#settleEarly(owner);
  }

  #settleEarly(owner: string): void {
    const early = this.#serviceToEarlySlices.get(owner) ?? new Map<string, EarlySlice>();
    this.early.takeEarly(owner, early.values(), this.#serviceToSlices.get(owner)?.values() ?? []);
    if (early.size === 0) this.#serviceToEarlySlices.delete(owner);
    this.#changed.add(owner);
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

  /** Has Services looked at again, for what objects do not say of them. */
  touch(services: readonly string[]): void {
    for (const service of services) this.#changed.add(service);
  }

  /** A Service as it is to be balanced; null where it is not there, or has no address. */
  find(key: string): BalancedService | null {
    const service = this.#services.get(key);
    const addresses = this.#serviceToAddresses.get(key);
    if (service === undefined || addresses === undefined || service.spec.type !== 'LoadBalancer') return null;
    const early = [...(this.#serviceToEarlySlices.get(key)?.values() ?? [])];
    const slices = [...(this.#serviceToSlices.get(key)?.values() ?? [])];
    const own = [...addresses].filter(([, uid]) => uid === service.metadata.uid);
    const ofFamily = (family: Family) =>
      own.map(([text]) => text).filter((text) => familyOf(text) === family);
    return {
      service,
      slices: this.early.merge(key, slices, early),
      weights: new Map(early.flatMap(({ metadata }) => [...readWeights(metadata.annotations)])),
      addresses: Object.fromEntries(families.map((family) => [family, ofFamily(family).sort()])) as Record<
        Family,
        string[]
      >,
      guarded: own.map(([text]) => text).filter((text) => this.#guards(key, text)),
    };
  }

  #addSlice(key: string, slice: EndpointSlice): void {
    const owner = nameOwner(slice);
    const slices = this.#serviceToSlices.get(owner) ?? new Map<string, EndpointSlice>();
    this.#serviceToSlices.set(owner, slices.set(key, slice));
    this.early.takeSlice(owner, slice);
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
    this.#vipToServices.delete(text);
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
    this.#vipToServices.set(address.text, spec.services);
    for (const { namespace, name, uid } of spec.services) {
      const key = `${namespace}/${name}`;
      const addresses = this.#serviceToAddresses.get(key) ?? new Map<string, string>();
      this.#serviceToAddresses.set(key, addresses.set(address.text, uid));
      this.#changed.add(key);
    }
  }
}

function nameService({ namespace, name }: VirtualIp['spec']['services'][number]): string {
  return `${namespace}/${name}`;
}

function familyOf(address: string): Family {
  return address.includes(':') ? 'ipv6' : 'ipv4';
}

function nameOwner({ metadata }: EndpointSlice): string {
  return `${metadata.namespace}/${metadata.labels?.[serviceNameLabel] ?? ''}`;
}
