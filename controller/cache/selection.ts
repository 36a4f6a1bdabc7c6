import { type Change } from '../../lib/kubernetes/object-store.ts';
import { type EarlySlice } from '../../lib/services/early-slices.ts';
import { isSelected } from '../../lib/services/label-selector.ts';
import { type Pod } from '../../lib/services/pods.ts';
import { type Service } from '../../lib/services/services.ts';
import { listDiffering, MultiMap } from './multi-map.ts';
import { type Known } from './known.ts';

/** Which Services of type LoadBalancer select which pods: one change costs what it changes. */
export class Selection {
  readonly #known: Pick<Known, 'services' | 'pods' | 'labelToServices' | 'namespaceToPods'>;
  readonly #serviceToPods = new MultiMap();
  readonly #podToServices = new MultiMap();

  /** It looks at the maps as they are after each change. */
  constructor(known: Pick<Known, 'services' | 'pods' | 'labelToServices' | 'namespaceToPods'>) {
    this.#known = known;
  }

  /** Views, which change with it. */
  get maps(): Pick<Known, 'serviceToPods' | 'podToServices'> {
    return { serviceToPods: this.#serviceToPods.map, podToServices: this.#podToServices.map };
  }

  /** A pod has changed. */
  changePod({ key, after }: Change<Pod>): void {
    const known = [...(this.#podToServices.map.get(key) ?? [])];
    this.#link(key, known, after === null ? [] : this.#findServices(after));
  }

  /** A Service of any type has changed. */
  changeService({ key, before, after }: Change<Service>): void {
    const [was, is] = [before, after].map((service) =>
      service === null ? '' : JSON.stringify([isSelecting(service), service.spec.selector]),
    );
    if (was === is) return;
    const known = [...(this.#serviceToPods.map.get(key) ?? [])];
    for (const pod of known) this.#link(pod, [key], []);
    if (after === null || !isSelecting(after)) return;
    const [namespace = ''] = key.split('/');
    for (const pod of this.#known.namespaceToPods.get(namespace) ?? [])
      if (selects(after, this.#known.pods.get(pod))) this.#link(pod, [], [key]);
  }

  #link(pod: string, before: readonly string[], after: readonly string[]): void {
    this.#serviceToPods.move(pod, before, after);
    for (const service of before) this.#podToServices.move(service, [pod], []);
    for (const service of after) this.#podToServices.move(service, [], [pod]);
  }

  #findServices(pod: Pod): string[] {
    const { namespace, labels } = pod.metadata;
    const candidates = Object.entries(labels ?? {}).flatMap(([label, value]) => [
      ...(this.#known.labelToServices.get(`${namespace}/${label}=${value}`) ?? []),
    ]);
    return [...new Set(candidates)].filter((key) => {
      const service = this.#known.services.get(key);
      return service !== undefined && selects(service, pod);
    });
  }
}

function selects({ spec }: Service, pod: Pod | undefined): boolean {
  return pod !== undefined && isSelected({ matchLabels: spec.selector }, pod.metadata.labels);
}

/** A Service that ends selects on, for who follows it: whether it is served is for its step to say. */
function isSelecting({ spec }: Service): boolean {
  return spec.type === 'LoadBalancer' && Object.keys(spec.selector ?? {}).length > 0;
}

/** What finds a Service by the labels of a pod; nothing where it selects none. */
export function listFirstLabel(service: Service): string[] {
  if (!isSelecting(service)) return [];
  const [[label, value] = ['', '']] = Object.entries(service.spec.selector ?? {});
  return [`${service.metadata.namespace}/${label}=${value}`];
}

type EarlyEndpoint = NonNullable<EarlySlice['endpoints']>[number];

/** What of an endpoint makes it another one to nodes: its pod, its address, its ports, whether it takes connections, whether it ends. */
export function toEndpointText(
  { addresses, conditions, targetRef }: EarlyEndpoint,
  slice: EarlySlice,
): string {
  const [address = ''] = addresses;
  return JSON.stringify([
    targetRef?.uid,
    address,
    conditions?.ready === true,
    conditions?.terminating === true,
    slice.addressType,
    slice.ports,
  ]);
}

/** Endpoints that have not changed keep their version: whoever waits for one of them does not wait for what came after it. */
export function noteSince(
  { before, after }: Change<EarlySlice>,
  known: ReadonlyMap<string, string> | undefined,
): ReadonlyMap<string, string> | null {
  if (after === null) return null;
  const { resourceVersion } = after.metadata;
  const kept = isNext(before, after) ? known : undefined;
  const texts = (after.endpoints ?? []).map((endpoint) => toEndpointText(endpoint, after));
  return new Map(texts.map((text) => [text, kept?.get(text) ?? resourceVersion]));
}

/** The uids of the pods of endpoints that are others now, or of another version. */
export function listChangedEndpoints({ before, after }: Change<EarlySlice>): ReadonlySet<string> {
  const list = (slice: EarlySlice | null) =>
    (slice?.endpoints ?? []).map((endpoint) => (slice === null ? '' : toEndpointText(endpoint, slice)));
  const isGap = after !== null && !isNext(before, after);
  const changed = [...listDiffering(list(before), list(after)), ...(isGap ? list(after) : [])];
  return new Set(changed.map((text) => (JSON.parse(text) as [string | undefined])[0] ?? ''));
}

/** Whether no version lies between two that endpoints may differ in: a list after a gap shows the last one only. */
function isNext(before: EarlySlice | null, { metadata }: EarlySlice): boolean {
  if (before === null || before.metadata.uid !== metadata.uid) return false;
  return metadata.generation <= before.metadata.generation + 1;
}
