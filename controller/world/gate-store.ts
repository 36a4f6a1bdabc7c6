import { type Change } from '../../lib/kubernetes/object-store.ts';
import { type EarlySlice, nameEarlyOwner } from '../../lib/services/early-slices.ts';
import { type Node } from '../../lib/services/cluster.ts';
import { isSelected } from '../../lib/services/label-selector.ts';
import { type VirtualIp } from '../../lib/services/objects.ts';
import { type Pod } from '../../lib/services/pods.ts';
import { type Service } from '../../lib/services/services.ts';
import { type Affected, unaffected } from './affected.ts';
import { isJudged } from './conditions.ts';
import { type StepKey } from './keys.ts';
import { MultiMap } from './multi-map.ts';
import { readZone } from './object-parts.ts';

/** What gates are decided from, besides the rest of the world. */
export interface GateWorld {
  /** By `NAMESPACE/NAME`: pods with a gate or a weight. */
  readonly pods: ReadonlyMap<string, Pod>;
  /** By `NAMESPACE/NAME`. */
  readonly slices: ReadonlyMap<string, EarlySlice>;
  /** Keys of Services of type LoadBalancer to keys of the pods that they select, and the other way round. */
  readonly serviceToPods: ReadonlyMap<string, ReadonlySet<string>>;
  readonly podToServices: ReadonlyMap<string, ReadonlySet<string>>;
  /** Keys of Services to keys of their early EndpointSlices. */
  readonly serviceToSlices: ReadonlyMap<string, ReadonlySet<string>>;
  /** Keys of early EndpointSlices to: endpoints, as they are now, to the first version that is known to have them so. See `toEndpointText`. */
  readonly sliceToSince: ReadonlyMap<string, ReadonlyMap<string, string>>;
}

type EarlyEndpoint = NonNullable<EarlySlice['endpoints']>[number];

/** What of an endpoint makes it another one to nodes: its pod, its address, its ports, whether it takes connections. */
export function toEndpointText(
  { addresses, conditions, targetRef }: EarlyEndpoint,
  slice: EarlySlice,
): string {
  const [address = ''] = addresses;
  return JSON.stringify([
    targetRef?.uid,
    address,
    conditions?.ready === true,
    slice.addressType,
    slice.ports,
  ]);
}

/** Keeps pods and early EndpointSlices, and what finds them: one change costs what it changes. */
export class GateStore {
  readonly #services: ReadonlyMap<string, Service>;
  readonly #pods = new Map<string, Pod>();
  readonly #slices = new Map<string, EarlySlice>();
  readonly #serviceToPods = new MultiMap();
  readonly #podToServices = new MultiMap();
  readonly #serviceToSlices = new MultiMap();
  readonly #namespaceToPods = new MultiMap();
  readonly #nodeToPods = new MultiMap();
  /** `NAMESPACE/LABEL=VALUE`, the first one of a selector, to keys of Services. */
  readonly #labelToServices = new MultiMap();
  readonly #sliceToSince = new Map<string, ReadonlyMap<string, string>>();

  /** It looks at the Services as they are at each change. */
  constructor(services: ReadonlyMap<string, Service>) {
    this.#services = services;
  }

  /** A view, which changes with it. */
  get view(): GateWorld {
    return {
      pods: this.#pods,
      slices: this.#slices,
      serviceToPods: this.#serviceToPods.map,
      podToServices: this.#podToServices.map,
      serviceToSlices: this.#serviceToSlices.map,
      sliceToSince: this.#sliceToSince,
    };
  }

  /** A pod with a gate or a weight. */
  changePod({ key, before, after }: Change<Pod>): Affected {
    const services = after === null ? [] : this.#findServices(after);
    const known = this.#podToServices.get(key);
    if (after === null) this.#pods.delete(key);
    else this.#pods.set(key, after);
    const { namespace } = (after ?? before)?.metadata ?? { namespace: '' };
    this.#namespaceToPods.move(key, before === null ? [] : [namespace], after === null ? [] : [namespace]);
    this.#nodeToPods.move(key, listNodes(before), listNodes(after));
    this.#link(key, known, services);
    const selecting = new Set([...known, ...services]);
    return toAffected([toPodKey(key), ...[...selecting].map(toSlicesKey)]);
  }

  /** An early EndpointSlice. */
  changeSlice({ key, before, after }: Change<EarlySlice>): Affected {
    const known = this.#sliceToSince.get(key) ?? new Map<string, string>();
    const since = after === null ? null : noteSince(after, isNext(before, after) ? known : null);
    if (after === null) this.#slices.delete(key);
    else this.#slices.set(key, after);
    if (since === null) this.#sliceToSince.delete(key);
    else this.#sliceToSince.set(key, since);
    const owners = [before, after].map((slice) => (slice === null ? [] : [nameEarlyOwner(slice)]));
    this.#serviceToSlices.move(key, owners[0] ?? [], owners[1] ?? []);
    const changed = [...new Set([...known.keys(), ...(since?.keys() ?? [])])].filter(
      (text) => known.get(text) !== since?.get(text),
    );
    const uids = new Set(changed.map((text) => (JSON.parse(text) as [string | undefined])[0] ?? ''));
    const owner = new Set(owners.flat());
    const pods = [...owner].flatMap((service) =>
      this.#serviceToPods.get(service).filter((pod) => uids.has(this.#pods.get(pod)?.metadata.uid ?? '')),
    );
    return toAffected([...[...owner].map(toSlicesKey), ...pods.map(toPodKey)]);
  }

  /** A Service of any type, after it was taken. */
  changeService({ key, before, after }: Change<Service>): Affected {
    if (toParts(before) === toParts(after)) return unaffected;
    this.#labelToServices.move(key, listFirstLabel(before), listFirstLabel(after));
    const known = new Set(this.#serviceToPods.get(key));
    const [namespace = ''] = key.split('/');
    const all = this.#namespaceToPods.get(namespace);
    const now = new Set(all.filter((pod) => after !== null && this.#selects(after, pod)));
    const pods = [...new Set([...known, ...now])];
    for (const pod of pods) this.#link(pod, known.has(pod) ? [key] : [], now.has(pod) ? [key] : []);
    const hasSlices = this.#serviceToSlices.get(key).length > 0;
    return pods.length === 0 && !hasSlices
      ? unaffected
      : toAffected([toSlicesKey(key), ...pods.map(toPodKey)]);
  }

  /** Which Services have an address. Answers the keys of what depends on it. */
  changeVirtualIp({ before, after }: Change<VirtualIp>): readonly StepKey[] {
    if (toUseText(before) === toUseText(after)) return [];
    const users = [...(before?.spec.services ?? []), ...(after?.spec.services ?? [])];
    const services = new Set(users.map(({ namespace, name }) => `${namespace}/${name}`));
    const pods = [...services].flatMap((service) => this.#serviceToPods.get(service));
    return [...new Set(pods)].map(toPodKey);
  }

  /** The zone of a node: endpoints there have it. Answers the keys of what depends on it. */
  changeNode({ key, before, after }: Change<Node>): readonly StepKey[] {
    if (readZone(before) === readZone(after)) return [];
    const services = this.#nodeToPods.get(key).flatMap((pod) => this.#podToServices.get(pod));
    return [...new Set(services)].map(toSlicesKey);
  }

  #link(pod: string, before: readonly string[], after: readonly string[]): void {
    this.#serviceToPods.move(pod, before, after);
    for (const service of before) this.#podToServices.move(service, [pod], []);
    for (const service of after) this.#podToServices.move(service, [], [pod]);
  }

  #findServices({ metadata: { namespace, labels } }: Pod): string[] {
    const candidates = Object.entries(labels ?? {}).flatMap(([label, value]) =>
      this.#labelToServices.get(`${namespace}/${label}=${value}`),
    );
    return [...new Set(candidates)].filter((key) => {
      const service = this.#services.get(key);
      return service !== undefined && isSelected({ matchLabels: service.spec.selector }, labels);
    });
  }

  #selects(service: Service, pod: string): boolean {
    const { labels } = this.#pods.get(pod)?.metadata ?? {};
    return isSelecting(service) && isSelected({ matchLabels: service.spec.selector }, labels);
  }
}

/** A Service that ends selects on, for who follows it: whether it is served is for its step to say. */
function isSelecting({ spec }: Service): boolean {
  return spec.type === 'LoadBalancer' && Object.keys(spec.selector ?? {}).length > 0;
}

function listFirstLabel(service: Service | null): string[] {
  if (service === null || !isSelecting(service)) return [];
  const [[label, value] = ['', '']] = Object.entries(service.spec.selector ?? {});
  return [`${service.metadata.namespace}/${label}=${value}`];
}

function listNodes(pod: Pod | null): string[] {
  const node = pod?.spec.nodeName ?? '';
  return node === '' ? [] : [node];
}

/** What of a Service early EndpointSlices and gates depend on. */
function toParts(service: Service | null): string {
  if (service === null) return '';
  const { metadata, spec } = service;
  return JSON.stringify([metadata.uid, metadata.deletionTimestamp, spec, isJudged(service)]);
}

function toUseText(virtualIp: VirtualIp | null | undefined): string {
  return JSON.stringify([virtualIp?.spec.services, virtualIp?.spec.pool]);
}

/** Whether no version lies between two that endpoints may differ in: a list after a gap shows the last one only. */
function isNext(before: EarlySlice | null, { metadata }: EarlySlice): boolean {
  if (before === null || before.metadata.uid !== metadata.uid) return false;
  return metadata.generation <= before.metadata.generation + 1;
}

/** Endpoints that have not changed keep their version: whoever waits for one of them does not wait for what came after it. */
function noteSince(slice: EarlySlice, known: ReadonlyMap<string, string> | null): Map<string, string> {
  const { resourceVersion } = slice.metadata;
  const texts = (slice.endpoints ?? []).map((endpoint) => toEndpointText(endpoint, slice));
  return new Map(texts.map((text) => [text, known?.get(text) ?? resourceVersion]));
}

function toAffected(keys: readonly StepKey[]): Affected {
  return { keys, wakes: new Set() };
}

function toPodKey(key: string): StepKey {
  const [namespace = '', name = ''] = key.split('/');
  return { kind: 'Pod', namespace, name };
}

function toSlicesKey(key: string): StepKey {
  const [namespace = '', name = ''] = key.split('/');
  return { kind: 'EarlySlices', namespace, name };
}
