import { type Family, parseAddress } from '../../lib/net.ts';
import {
  type Pod,
  isServing,
  readPodWeight,
  usualWeight,
  findDisruption,
  readDate,
  listGates,
  readOpenSince,
  type EarlySlice,
  formatWeights,
  nameEarlyOwner,
} from '../../lib/api/endpoints.ts';
import { readAnnotation, type Service } from '../../lib/api/service.ts';
import type { ClusterView } from '../cache/cache.ts';
import { isNodeReady, readZone } from '../../lib/api/node.ts';
import { type NodesState, isPrepared, readSince } from '../cache/nodes.ts';
import { listServicesOfNode, listBoth } from '../cache/known.ts';
import { isDeleted, isJudged, findReadiness, listPublished, isServed } from '../cache/parts.ts';
import { type Kind, type Step, nothing, toStep, createObject, deleteObject, patchMetadata } from '../step.ts';
import {
  weightsAnnotation,
  managedByLabel,
  apiGroup,
  earlyServiceLabel,
  hidingLabels,
} from '../../lib/api/vipnat.ts';
import { createHash } from 'node:crypto';

/** Pods as endpoints of early EndpointSlices: which there are to be, and how a slice has them. */

/** A pod as an endpoint of a Service, in one family. */
export interface WantedEndpoint {
  readonly family: Family;
  readonly ports: readonly SlicePort[];
  readonly address: string;
  readonly weight: number;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  readonly node: string | null;
  readonly zone: string | null;
  readonly pod: { readonly name: string; readonly uid: string };
}

/** Kubernetes' own EndpointSlices have a pod by then, whose gate is open: that takes as long as a controller of its takes to be replaced. */
const keptMs = 60_000;

/** A pod's endpoints for a Service: one of each family that both have. None for one without an address or a port. */
export function listEndpointsOf(
  pod: Pod,
  service: Service,
  { settings, nodes, nowMs }: ClusterView,
): WantedEndpoint[] {
  const { metadata, spec } = pod;
  const ports = resolvePorts(service, pod);
  if (ports.length === 0) return [];
  const terminating = isDeleted(pod) || isDisrupted(pod, nowMs);
  const node = spec.nodeName ?? null;
  const serving = isServing(pod, settings.gateTypes, nodes);
  return listAddresses(pod, service).map(({ family, text }) => ({
    ...{ family, ports, address: text, serving, terminating, node },
    weight: readPodWeight(metadata.annotations) ?? usualWeight,
    ready: service.spec.publishNotReadyAddresses || (serving && !terminating),
    zone: readZone(nodes.get(node ?? '')),
    pod: { name: metadata.name, uid: metadata.uid },
  }));
}

/** An eviction deletes its pod in the same request: Kubernetes' own EndpointSlices say soon that it ends, and a write is one for nothing. */
const disruptedMs = 1000;

/**
 * From when a pod that is about to be evicted counts as one that ends, as milliseconds since 1970; null for any other. Where nobody deletes
 * the pod, kube-controller-manager takes the condition back after two minutes.
 */
function findDisruptedMs(pod: Pod, nowMs: number): number | null {
  const disruption = findDisruption(pod);
  if (disruption === null) return null;
  const sinceMs = readDate(disruption.lastTransitionTime);
  // Without a date that can be, it is not waited for.
  return sinceMs === null || sinceMs > nowMs ? nowMs : sinceMs + disruptedMs;
}

function isDisrupted(pod: Pod, nowMs: number): boolean {
  return (findDisruptedMs(pod, nowMs) ?? Infinity) <= nowMs;
}

/**
 * Until when a pod is to be in early EndpointSlices, as milliseconds since 1970: for good with a weight, or while a gate of its is closed,
 * and for a while afterwards. With a gate, one that ends is there again until it is gone: nodes stop to send it connections, and report it. One
 * that is about to be evicted is there until it is gone, too, unless it was deleted before it was written.
 */
function findLastMs(pod: Pod, { settings, nowMs }: ClusterView, isWritten: boolean): number {
  const isGated = listGates(pod, settings.gateTypes).length > 0;
  const isEnding = isDeleted(pod)
    ? isGated || (isWritten && isDisrupted(pod, nowMs))
    : isDisrupted(pod, nowMs);
  if (isEnding || readPodWeight(pod.metadata.annotations) !== null) return Infinity;
  if (!isGated) return -Infinity;
  const lastMs = (readOpenSince(pod, settings.gateTypes) ?? Infinity) + keptMs;
  // The date of a controller before this one may have been wrong.
  return lastMs !== Infinity && lastMs > nowMs + 2 * keptMs ? nowMs : lastMs;
}

/** How far a pod's own node is, which takes what others send there before Kubernetes calls the pod ready. */
function judgeOwnNode(endpoint: WantedEndpoint, service: Service, view: ClusterView): NodesState {
  const { namespace, name } = service.metadata;
  const version = findSince(endpoint, service, view, true);
  return view.candidates.judge(`/${endpoint.node ?? ''}`, `${namespace}/${name}`, version);
}

/**
 * The first version of an early EndpointSlice that has an endpoint as it is, and ready: for its own node, it is enough that it serves. Null where
 * none has.
 */
export function findSince(
  { ready, address, pod: { uid }, ...group }: WantedEndpoint,
  service: Service,
  view: ClusterView,
  isForOwnNode = false,
): string | null {
  const keys = ready ? [...(view.uidToSlices.get(uid) ?? [])] : [];
  const slices = keys.flatMap((key) => view.earlySlices.get(key) ?? []);
  const own = slices.filter((one) => isOf(one, service) && readGroupText(one) === toGroupText(group));
  for (const slice of own) {
    const found = slice.endpoints?.find(
      ({ addresses, targetRef, conditions }) =>
        targetRef?.uid === uid &&
        addresses[0] === address &&
        (conditions?.ready === true || (isForOwnNode && isPrepared(conditions))),
    );
    if (found !== undefined) return readSince(view, slice, found);
  }
  return null;
}

/** What of a Service early EndpointSlices and gates depend on. */
export function getGateParts(service: Service): unknown {
  const { metadata, spec } = service;
  return [
    ...[metadata.uid, metadata.deletionTimestamp, readAnnotation(service, 'dataplane')],
    ...[spec, isJudged(service), listReadyFamilies(service)],
  ];
}

/** The families of the addresses that a Service's status calls ready. */
export function listReadyFamilies(service: Service): Family[] {
  const isReady = findReadiness(service)?.status === 'True';
  return isReady ? listPublished(service).map(({ family }) => family) : [];
}

/** The first address of each family, as Kubernetes' EndpointSlices have it. */
function listAddresses({ status }: Pod, { spec }: Service): { family: Family; text: string }[] {
  const texts = (status?.podIPs ?? []).map(({ ip }) => ip ?? '');
  const addresses = [...texts, status?.podIP ?? ''].map(parseAddress).filter((one) => one !== null);
  const families = (spec.ipFamilies ?? ['IPv4']).map((name): Family => (name === 'IPv6' ? 'ipv6' : 'ipv4'));
  return [...new Set(families)].flatMap((wanted) => {
    const found = addresses.find(({ family }) => family === wanted);
    return found === undefined ? [] : [found];
  });
}

type SlicePort = Readonly<{ name: string; protocol: string; port: number }>;

/**
 * The ports of a Service on one pod, in the Service's order. A target port that is a name is the pod's own; ports that no container has
 * by that name are left out, as Kubernetes does (component-helpers, FindPort).
 */
function resolvePorts({ spec }: Service, pod: Pod): SlicePort[] {
  return (spec.ports ?? []).flatMap(({ name, protocol, port, targetPort }) => {
    const target = targetPort ?? port;
    const found = typeof target === 'number' ? target : findNamed(pod, target, protocol);
    // 0 is how an absent one is written.
    return found === null ? [] : [{ name, protocol, port: found === 0 ? port : found }];
  });
}

function findNamed({ spec }: Pod, wanted: string, protocol: string): number | null {
  const sidecars = (spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always');
  const ports = [...spec.containers, ...sidecars].flatMap((container) => container.ports ?? []);
  const found = ports.find((one) => one.name === wanted && (one.protocol ?? 'TCP') === protocol);
  return found?.containerPort ?? null;
}

const familyToType: Readonly<Record<Family, string>> = { ipv4: 'IPv4', ipv6: 'IPv6' };

/** What endpoints have in common that are in one slice. */
function toGroupText({ family, ports }: Pick<WantedEndpoint, 'family' | 'ports'>): string {
  return JSON.stringify([
    familyToType[family],
    ports.map(({ name, protocol, port }) => [name, protocol, port]),
  ]);
}

function readGroupText({ addressType, ports }: EarlySlice): string {
  const known = (ports ?? []).map(({ name, protocol, port }) => [name ?? '', protocol ?? 'TCP', port]);
  return JSON.stringify([addressType, known]);
}

function toEndpointFields(endpoints: readonly WantedEndpoint[], namespace: string) {
  return endpoints.map(({ address, ready, serving, terminating, node, zone, pod }) => ({
    addresses: [address],
    conditions: { ready, serving, terminating },
    ...(node === null ? {} : { nodeName: node }),
    ...(zone === null ? {} : { zone }),
    targetRef: { kind: 'Pod', namespace, name: pod.name, uid: pod.uid },
  }));
}

/** The annotation of the weights; null where all are usual. */
function toWeights(endpoints: readonly WantedEndpoint[]): string | null {
  return formatWeights(new Map(endpoints.map(({ address, weight }) => [address, weight])));
}

/** Whether a slice has these endpoints, in this order, and their weights. Nobody asks whether one that ends still serves: that is no reason to write. */
function hasEndpoints(slice: EarlySlice, endpoints: readonly WantedEndpoint[]): boolean {
  const wanted = toEndpointFields(endpoints, slice.metadata.namespace);
  const [known, own] = [slice.endpoints ?? [], wanted].map((all: NonNullable<EarlySlice['endpoints']>) =>
    all.map(({ addresses, conditions, nodeName, zone, targetRef }) => {
      const { ready, serving, terminating } = conditions ?? {};
      const serves = terminating === true || serving;
      return [addresses, ready, serves, terminating, nodeName ?? null, zone ?? null, targetRef?.uid];
    }),
  );
  const weights = slice.metadata.annotations?.[weightsAnnotation] ?? null;
  return JSON.stringify(known) === JSON.stringify(own) && weights === toWeights(endpoints);
}

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
      toKeys: (change) => listBoth(change, (slice) => [nameEarlyOwner(slice)]).flat(),
    },
    { source: 'nodes', part: (node) => [readZone(node), isNodeReady(node)], toKeys: listServicesOfNode },
  ],
  next: nextEarlySlicesStep,
  mayRepeat: true,
};

/** The next step of a Service's early EndpointSlices. A Service that is not served has none. */
function nextEarlySlicesStep(key: string, view: ClusterView): Step {
  // In the order of their names. One that is being deleted is not there.
  const names = [...(view.serviceToSlices.get(key) ?? [])].sort();
  const slices = names.flatMap((name) => view.earlySlices.get(name) ?? []).filter((one) => !isDeleted(one));
  const service = view.services.get(key);
  if (service === undefined || !isServed(service, view.settings.isDefaultClass))
    return slices[0] === undefined ? nothing : toStep(deleteObject('EndpointSlice', slices[0]));
  const own = slices.filter((slice) => isOf(slice, service));
  const wanted = listWanted(service, own, view);
  const plan = planSlices(wanted.endpoints, own);
  return (
    changeSlice(plan) ??
    createSlice(service, plan, slices) ??
    dropSlice(slices, plan) ??
    wait(service, wanted)
  );
}

function wait(service: Service, { untilMs, prepared }: Wanted): Step {
  if (untilMs === Infinity && prepared.length === 0) return nothing;
  const isStill = (later: ClusterView) =>
    prepared.every((endpoint) => judgeOwnNode(endpoint, service, later) !== 'done');
  const dueMs = untilMs === Infinity ? null : untilMs;
  return { does: 'wait', waitsFor: 'nodes', why: 'pods that are to come or go', untilMs: dueMs, isStill };
}

/** One of a Service that had the name before goes with that one. */
function isOf({ metadata }: EarlySlice, service: Service): boolean {
  return metadata.ownerReferences?.some(({ uid }) => uid === service.metadata.uid) === true;
}

interface Wanted {
  readonly endpoints: readonly WantedEndpoint[];
  /** When the first of them is to come, to go, or to end, by itself. */
  readonly untilMs: number;
  /** Those of them that only their own nodes are to know as yet. */
  readonly prepared: readonly WantedEndpoint[];
}

function listWanted(service: Service, own: readonly EarlySlice[], view: ClusterView): Wanted {
  const { namespace, name: owner } = service.metadata;
  const written = new Set(own.flatMap(({ endpoints }) => (endpoints ?? []).map((one) => one.targetRef?.uid)));
  const moments: number[] = [];
  const endpoints = [...(view.serviceToPods.get(`${namespace}/${owner}`) ?? [])].flatMap((name) => {
    const pod = view.pods.get(name);
    if (pod === undefined) return [];
    const lastMs = findLastMs(pod, view, written.has(pod.metadata.uid));
    moments.push(lastMs, findDisruptedMs(pod, view.nowMs) ?? view.nowMs);
    return lastMs <= view.nowMs ? [] : listEndpointsOf(pod, service, view);
  });
  const ahead = moments.filter((ms) => ms > view.nowMs);
  const untilMs = ahead.reduce((first, ms) => Math.min(first, ms), Infinity);
  const prepared = new Set(endpoints.filter((endpoint) => isForOwnNode(endpoint, service, view)));
  const early = endpoints.map((one) => (prepared.has(one) ? { ...one, ready: false } : one));
  return { endpoints: early, untilMs, prepared: [...prepared] };
}

/** Whether only its own node is to have an endpoint as yet. What that one never takes, Kubernetes' own EndpointSlices publish. */
function isForOwnNode(endpoint: WantedEndpoint, service: Service, view: ClusterView): boolean {
  const { externalTrafficPolicy, publishNotReadyAddresses } = service.spec;
  if (externalTrafficPolicy !== 'Local' || !endpoint.ready || publishNotReadyAddresses) return false;
  return findSince(endpoint, service, view) === null && judgeOwnNode(endpoint, service, view) !== 'done';
}

function changeSlice({ kept }: SlicesPlan): Step | null {
  const found = kept.find(
    ({ slice, endpoints }) => endpoints.length > 0 && !(isHidden(slice) && hasEndpoints(slice, endpoints)),
  );
  if (found === undefined) return null;
  const { slice, endpoints } = found;
  const annotations = { [weightsAnnotation]: toWeights(endpoints) };
  const fields = { endpoints: toEndpointFields(endpoints, slice.metadata.namespace) };
  return toStep(patchMetadata('EndpointSlice', slice, { annotations, labels: hidingLabels }, fields));
}

/** Those of earlier versions have one of the labels. */
function isHidden({ metadata: { labels } }: EarlySlice): boolean {
  return Object.entries(hidingLabels).every(([label, value]) => labels?.[label] === value);
}

function createSlice(service: Service, { created }: SlicesPlan, slices: readonly EarlySlice[]): Step | null {
  const [endpoints = []] = created;
  const [first] = endpoints;
  if (first === undefined) return null;
  const { namespace, name: owner, uid } = service.metadata;
  const name = chooseName(service, new Set(slices.map(({ metadata }) => metadata.name)));
  const weights = toWeights(endpoints);
  const labels = { [managedByLabel]: apiGroup, [earlyServiceLabel]: owner, ...hidingLabels };
  const metadata = {
    name,
    labels,
    ...(weights === null ? {} : { annotations: { [weightsAnnotation]: weights } }),
    ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name: owner, uid }],
  };
  const body = {
    ...{ apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', metadata },
    ...{ addressType: familyToType[first.family], ports: first.ports },
    endpoints: toEndpointFields(endpoints, namespace),
  };
  return toStep(createObject('EndpointSlice', { namespace, name }, body));
}

/** Two controllers that make the same one at the same time make one, by its name. No other can collide: it would have to know the Service's uid. */
function chooseName({ metadata: { name, uid } }: Service, taken: ReadonlySet<string>): string {
  const prefix = `${name}-vipnat-${createHash('sha256').update(uid).digest('hex').slice(0, 10)}`;
  for (let index = 0; ; index += 1) if (!taken.has(`${prefix}-${index}`)) return `${prefix}-${index}`;
}

function dropSlice(slices: readonly EarlySlice[], { kept }: SlicesPlan): Step | null {
  const used = kept.flatMap(({ slice, endpoints }) => (endpoints.length > 0 ? [slice] : []));
  const surplus = slices.find((slice) => !used.includes(slice));
  return surplus === undefined ? null : toStep(deleteObject('EndpointSlice', surplus));
}

/** What the early EndpointSlices of a Service are to have. */
interface SlicesPlan {
  /** Slices that are there, with their endpoints in the order of the addresses; none for one that is to go. */
  readonly kept: readonly { readonly slice: EarlySlice; readonly endpoints: readonly WantedEndpoint[] }[];
  /** The endpoints of slices that are to be made. */
  readonly created: readonly (readonly WantedEndpoint[])[];
}

/** As many as Kubernetes puts into one: a change of one pod writes all of them. */
const maxEndpoints = 100;

/** Plans the early EndpointSlices of one Service. Endpoints stay in the slice that has them, so that a change writes one. Pure. */
function planSlices(wanted: readonly WantedEndpoint[], existing: readonly EarlySlice[]): SlicesPlan {
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
  const created = [...textToLeft.values()].flatMap((left) => [
    ...Map.groupBy(sort([...left]), (_, index) => Math.floor(index / maxEndpoints)).values(),
  ]);
  return { kept, created };
}

/** Pods of the host's network can have one address: then by their names. */
function sort(endpoints: readonly WantedEndpoint[]): WantedEndpoint[] {
  const toText = ({ address, pod }: WantedEndpoint) => `${address} ${pod.uid}`;
  return endpoints.toSorted((one, other) => (toText(one) < toText(other) ? -1 : 1));
}
