/** Pods as endpoints of early EndpointSlices: which there are to be, and how a slice has them. */
import { type Family, parseAddress } from '../../lib/net.ts';
import {
  type Pod,
  isReadyButForUs,
  readPodWeight,
  usualWeight,
  findDisruption,
  readDate,
  listGates,
  readOpenSince,
  type EarlySlice,
  formatWeights,
} from '../../lib/api/endpoints.ts';
import type { Service } from '../../lib/api/service.ts';
import type { ClusterView } from '../cache/cache.ts';
import { readZone } from '../../lib/api/node.ts';
import { isJudged, findReadiness, listPublished } from '../cache/parts.ts';
import type { Json } from '../step.ts';
import { weightsAnnotation } from '../../lib/api/vipnat.ts';

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
  const serving = isReadyButForUs(pod, settings.gateTypes);
  const node = spec.nodeName ?? null;
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
export function findDisruptedMs(pod: Pod, nowMs: number): number | null {
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
export function findLastMs(pod: Pod, { settings, nowMs }: ClusterView, isWritten: boolean): number {
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

function isDeleted({ metadata }: Pod): boolean {
  return typeof metadata.deletionTimestamp === 'string';
}

/** What of a Service early EndpointSlices and gates depend on. */
export function getGateParts(service: Service): unknown {
  const { metadata, spec } = service;
  return [metadata.uid, metadata.deletionTimestamp, spec, isJudged(service), listReadyFamilies(service)];
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

/** A port as an EndpointSlice has it. */
export interface SlicePort {
  readonly name: string;
  readonly protocol: string;
  readonly port: number;
}

type Container = Pod['spec']['containers'][number];

/**
 * The ports of a Service on one pod, in the Service's order. A target port that is a name is the pod's own; ports that no container has
 * by that name are left out, as Kubernetes does (component-helpers, FindPort).
 */
export function resolvePorts({ spec }: Service, pod: Pod): SlicePort[] {
  return (spec.ports ?? []).flatMap(({ name, protocol, port, targetPort }) => {
    const target = targetPort ?? port;
    const found = typeof target === 'number' ? target : findNamed(pod, target, protocol);
    // 0 is how an absent one is written.
    return found === null ? [] : [{ name, protocol, port: found === 0 ? port : found }];
  });
}

function findNamed({ spec }: Pod, wanted: string, protocol: string): number | null {
  const sidecars = (spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always');
  const ports = [...spec.containers, ...sidecars].flatMap((container: Container) => container.ports ?? []);
  const found = ports.find((one) => one.name === wanted && (one.protocol ?? 'TCP') === protocol);
  return found?.containerPort ?? null;
}

/** What endpoints have in common that are in one slice. */
export type Group = Pick<WantedEndpoint, 'family' | 'ports'>;

const familyToType: Readonly<Record<Family, string>> = { ipv4: 'IPv4', ipv6: 'IPv6' };

/** Another text for each group. */
export function toGroupText({ family, ports }: Group): string {
  return JSON.stringify([
    familyToType[family],
    ports.map(({ name, protocol, port }) => [name, protocol, port]),
  ]);
}

/** That of a slice that is there. */
export function readGroupText({ addressType, ports }: EarlySlice): string {
  const known = (ports ?? []).map(({ name, protocol, port }) => [name ?? '', protocol ?? 'TCP', port]);
  return JSON.stringify([addressType, known]);
}

/** The fields that do not change. */
export function toGroupFields({ family, ports }: Group): { readonly [field: string]: Json } {
  return {
    addressType: familyToType[family],
    ports: ports.map(({ name, protocol, port }) => ({ name, protocol, port })),
  };
}

/** The field `endpoints`. */
export function toEndpointFields(endpoints: readonly WantedEndpoint[], namespace: string): Json {
  return endpoints.map(({ address, ready, serving, terminating, node, zone, pod }) => ({
    addresses: [address],
    conditions: { ready, serving, terminating },
    ...(node === null ? {} : { nodeName: node }),
    ...(zone === null ? {} : { zone }),
    targetRef: { kind: 'Pod', namespace, name: pod.name, uid: pod.uid },
  }));
}

/** The annotation of the weights; null where all are usual. */
export function toWeights(endpoints: readonly WantedEndpoint[]): string | null {
  return formatWeights(new Map(endpoints.map(({ address, weight }) => [address, weight])));
}

/** Whether a slice has these endpoints, in this order, and their weights. Nobody asks whether one that ends still serves: that is no reason to write. */
export function hasEndpoints(slice: EarlySlice, endpoints: readonly WantedEndpoint[]): boolean {
  const known = (slice.endpoints ?? []).map(({ addresses, conditions, nodeName, zone, targetRef }) => {
    const { ready, serving, terminating } = conditions ?? {};
    const serves = terminating === true || serving;
    return [addresses, ready, serves, terminating, nodeName ?? null, zone ?? null, targetRef?.uid];
  });
  const wanted = endpoints.map(({ address, ready, serving, terminating, node, zone, pod }) => {
    return [[address], ready, terminating || serving, terminating, node, zone, pod.uid];
  });
  const weights = slice.metadata.annotations?.[weightsAnnotation] ?? null;
  return JSON.stringify(known) === JSON.stringify(wanted) && weights === toWeights(endpoints);
}
