import { type Kind, type Step, nothing, toStep, type Write } from '../step.ts';
import {
  getGateParts,
  type WantedEndpoint,
  findLastMs,
  findDisruptedMs,
  listEndpointsOf,
  hasEndpoints,
  toWeights,
  toEndpointFields,
  toGroupFields,
  type Group,
  toGroupText,
  readGroupText,
} from './endpoints.ts';
import { nameEarlyOwner, type EarlySlice, earlySlices as resource } from '../../lib/api/endpoints.ts';
import { readZone } from '../../lib/api/node.ts';
import type { ClusterView } from '../cache/cache.ts';
import { isServed } from '../cache/parts.ts';
import type { Service } from '../../lib/api/service.ts';
import {
  weightsAnnotation,
  managedByLabel,
  apiGroup,
  earlyServiceLabel,
  serviceProxyLabel,
} from '../../lib/api/vipnat.ts';
import { createHash } from 'node:crypto';

/** The early EndpointSlices of Services, by the keys of these. */
export const earlySliceKind: Kind = {
  name: 'EarlySlices',
  source: 'services',
  listKeys: ({ serviceToSlices, serviceToPods }) =>
    new Set([...serviceToSlices.keys(), ...serviceToPods.keys()]),
  subject: { apiVersion: 'v1', kind: 'Service' },
  watches: [
    {
      source: 'services',
      part: getGateParts,
      isAskedBefore: true,
      toKeys: ({ key }, { serviceToPods, serviceToSlices }) =>
        serviceToPods.has(key) || serviceToSlices.has(key) ? [key] : [],
    },
    {
      source: 'pods',
      isAskedBefore: true,
      toKeys: ({ key }, { podToServices }) => podToServices.get(key) ?? [],
    },
    {
      source: 'earlySlices',
      toKeys: ({ before, after }) =>
        [before, after].flatMap((slice) => (slice === null ? [] : [nameEarlyOwner(slice)])),
    },
    {
      source: 'nodes',
      part: readZone,
      toKeys: ({ key }, { nodeToPods, podToServices }) =>
        [...(nodeToPods.get(key) ?? [])].flatMap((name) => [...(podToServices.get(name) ?? [])]),
    },
  ],
  next: nextEarlySlicesStep,
  mayRepeat: true,
};

/**
 * The next step of a Service's early EndpointSlices: those that are there get their endpoints, then others are made, then those that have
 * none go. A Service that is not served has none.
 */
export function nextEarlySlicesStep(key: string, view: ClusterView): Step {
  const slices = listSlices(key, view);
  const service = view.services.get(key);
  if (service === undefined || !isServed(service, view.settings.isDefaultClass))
    return slices[0] === undefined ? nothing : toStep(deleteSlice(slices[0]));
  const own = slices.filter((slice) => isOf(slice, service));
  const { endpoints, untilMs } = listWanted(service, own, view);
  const plan = planSlices(endpoints, own);
  return (
    changeSlice(plan) ?? createSlice(service, plan, slices) ?? dropSlice(slices, own, plan) ?? wait(untilMs)
  );
}

function wait(untilMs: number): Step {
  if (untilMs === Infinity) return nothing;
  return { does: 'wait', waitsFor: 'time', why: 'pods that are to come or go', untilMs };
}

/** In the order of their names. One that is being deleted is not there. */
function listSlices(key: string, { serviceToSlices, earlySlices: known }: ClusterView): EarlySlice[] {
  const names = [...(serviceToSlices.get(key) ?? [])].sort();
  return names
    .flatMap((name) => known.get(name) ?? [])
    .filter(({ metadata }) => {
      return typeof metadata.deletionTimestamp !== 'string';
    });
}

/** One of a Service that had the name before goes with that one. */
function isOf({ metadata }: EarlySlice, service: Service): boolean {
  return metadata.ownerReferences?.some(({ uid }) => uid === service.metadata.uid) === true;
}

interface Wanted {
  readonly endpoints: readonly WantedEndpoint[];
  /** When the first of them is to come, to go, or to end, by itself. */
  readonly untilMs: number;
}

function listWanted(service: Service, own: readonly EarlySlice[], view: ClusterView): Wanted {
  const { namespace, name: owner } = service.metadata;
  const written = new Set(
    own.flatMap(({ endpoints }) => (endpoints ?? []).map(({ targetRef }) => targetRef?.uid)),
  );
  let untilMs = Infinity;
  const wait = (ms: number | null) => {
    if (ms !== null && ms > view.nowMs) untilMs = Math.min(untilMs, ms);
  };
  const endpoints = [...(view.serviceToPods.get(`${namespace}/${owner}`) ?? [])].flatMap((name) => {
    const pod = view.pods.get(name);
    if (pod === undefined) return [];
    const lastMs = findLastMs(pod, view, written.has(pod.metadata.uid));
    wait(lastMs);
    wait(findDisruptedMs(pod, view.nowMs));
    return lastMs <= view.nowMs ? [] : listEndpointsOf(pod, service, view);
  });
  return { endpoints, untilMs };
}

function changeSlice({ kept }: SlicesPlan): Step | null {
  const found = kept.find(({ slice, endpoints }) => endpoints.length > 0 && !hasEndpoints(slice, endpoints));
  if (found === undefined) return null;
  const { slice, endpoints } = found;
  const { namespace, resourceVersion } = slice.metadata;
  const annotations = { [weightsAnnotation]: toWeights(endpoints) };
  const body = {
    metadata: { resourceVersion, annotations },
    endpoints: toEndpointFields(endpoints, namespace),
  };
  return toStep({ ...toTarget(slice), method: 'PATCH', body });
}

function createSlice(
  service: Service,
  { created: [first] }: SlicesPlan,
  slices: readonly EarlySlice[],
): Step | null {
  if (first === undefined) return null;
  const { namespace, name: owner, uid } = service.metadata;
  const name = chooseName(service, new Set(slices.map(({ metadata }) => metadata.name)));
  const weights = toWeights(first.endpoints);
  const labels = { [managedByLabel]: apiGroup, [earlyServiceLabel]: owner, [serviceProxyLabel]: apiGroup };
  const metadata = {
    name,
    labels,
    ...(weights === null ? {} : { annotations: { [weightsAnnotation]: weights } }),
    ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name: owner, uid }],
  };
  const body = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata,
    ...toGroupFields(first.group),
    endpoints: toEndpointFields(first.endpoints, namespace),
  };
  const key = `${namespace}/${name}`;
  return toStep({ method: 'POST', path: toPath(namespace), body, kind: 'EndpointSlice', key, confirm: [] });
}

/**
 * By its name, two controllers that make the same one at the same moment make one. What others name cannot collide with it: they
 * would have to know the Service's uid.
 */
function chooseName({ metadata: { name, uid } }: Service, taken: ReadonlySet<string>): string {
  const prefix = `${name}-vipnat-${createHash('sha256').update(uid).digest('hex').slice(0, 10)}`;
  for (let index = 0; ; index += 1) if (!taken.has(`${prefix}-${index}`)) return `${prefix}-${index}`;
}

function dropSlice(
  slices: readonly EarlySlice[],
  own: readonly EarlySlice[],
  { kept }: SlicesPlan,
): Step | null {
  const empty = kept.find(({ endpoints }) => endpoints.length === 0)?.slice;
  const surplus = slices.find((slice) => !own.includes(slice)) ?? empty;
  return surplus === undefined ? null : toStep(deleteSlice(surplus));
}

function deleteSlice(slice: EarlySlice): Write {
  const { uid, resourceVersion } = slice.metadata;
  const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid, resourceVersion } };
  return { ...toTarget(slice), method: 'DELETE', body };
}

function toTarget({
  metadata: { namespace, name },
}: EarlySlice): Pick<Write, 'path' | 'kind' | 'key' | 'confirm'> {
  return {
    path: `${toPath(namespace)}/${name}`,
    kind: 'EndpointSlice',
    key: `${namespace}/${name}`,
    confirm: [],
  };
}

const [root = ''] = resource.path.split('/endpointslices');

function toPath(namespace: string): string {
  return `${root}/namespaces/${namespace}/endpointslices`;
}

/** What the early EndpointSlices of a Service are to have. */
export interface SlicesPlan {
  /** Slices that are there, with their endpoints in the order of the addresses; none for one that is to go. */
  readonly kept: readonly { readonly slice: EarlySlice; readonly endpoints: readonly WantedEndpoint[] }[];
  /** Slices that are to be made. */
  readonly created: readonly { readonly group: Group; readonly endpoints: readonly WantedEndpoint[] }[];
}

/** As many as Kubernetes puts into one: a change of one pod writes all of them. */
const maxEndpoints = 100;

/** Plans the early EndpointSlices of one Service. Endpoints stay in the slice that has them, so that a change writes one. Pure. */
export function planSlices(wanted: readonly WantedEndpoint[], existing: readonly EarlySlice[]): SlicesPlan {
  const textToLeft = new Map(
    [...Map.groupBy(wanted, toGroupText)].map(([text, group]) => [text, new Set(group)]),
  );
  const take = (slice: EarlySlice, most: number, isTaken: (endpoint: WantedEndpoint) => boolean) => {
    const left = textToLeft.get(readGroupText(slice)) ?? new Set();
    const taken = [...left].filter(isTaken).slice(0, most);
    for (const endpoint of taken) left.delete(endpoint);
    return taken;
  };
  const stayed = existing.map((slice) => {
    const uids = new Set((slice.endpoints ?? []).map(({ targetRef }) => targetRef?.uid ?? ''));
    return { slice, endpoints: take(slice, maxEndpoints, ({ pod }) => uids.has(pod.uid)) };
  });
  const kept = stayed.map(({ slice, endpoints }) => {
    const added = take(slice, maxEndpoints - endpoints.length, () => true);
    return { slice, endpoints: sort([...endpoints, ...added]) };
  });
  const created = [...textToLeft.values()].flatMap((left) => cut(sort([...left])));
  return { kept, created };
}

function cut(endpoints: readonly WantedEndpoint[]): { group: Group; endpoints: WantedEndpoint[] }[] {
  const [group] = endpoints;
  if (group === undefined) return [];
  const count = Math.ceil(endpoints.length / maxEndpoints);
  return Array.from({ length: count }, (_, index) => {
    return { group, endpoints: endpoints.slice(index * maxEndpoints, (index + 1) * maxEndpoints) };
  });
}

/** Pods of the host's network can have one address: then by their names. */
function sort(endpoints: readonly WantedEndpoint[]): WantedEndpoint[] {
  const toText = ({ address, pod }: WantedEndpoint) => `${address} ${pod.uid}`;
  return endpoints.toSorted((one, other) => (toText(one) < toText(other) ? -1 : 1));
}
