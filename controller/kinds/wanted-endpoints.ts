/** Which endpoints early EndpointSlices are to have. */
import { type Family, parseAddress } from '../../lib/address/address.ts';
import { type Pod } from '../../lib/services/pods.ts';
import { type Service } from '../../lib/services/services.ts';
import { readPodWeight, usualWeight } from '../../lib/services/weights.ts';
import { isJudged } from '../cache/conditions.ts';
import { readZone } from '../cache/object-parts.ts';
import { type World } from '../cache/world.ts';
import { isReadyButForUs, readOpenSince } from './pod-readiness.ts';
import { resolvePorts, type SlicePort } from './resolve-ports.ts';

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
export function listEndpointsOf(pod: Pod, service: Service, { settings, nodes }: World): WantedEndpoint[] {
  const { metadata, spec } = pod;
  const ports = resolvePorts(service, pod);
  if (ports.length === 0) return [];
  const terminating = typeof metadata.deletionTimestamp === 'string';
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

/**
 * Until when a pod is to be in early EndpointSlices, as milliseconds since 1970: for good with a weight, or while a gate of its is closed,
 * and for a while afterwards.
 */
export function findLastMs(pod: Pod, { settings, nowMs }: World): number {
  if (readPodWeight(pod.metadata.annotations) !== null) return Infinity;
  const lastMs = (readOpenSince(pod, settings.gateTypes) ?? Infinity) + keptMs;
  // The date of a controller before this one may have been wrong.
  return lastMs !== Infinity && lastMs > nowMs + 2 * keptMs ? nowMs : lastMs;
}

/** What of a Service early EndpointSlices and gates depend on. */
export function getGateParts(service: Service): unknown {
  const { metadata, spec } = service;
  return [metadata.uid, metadata.deletionTimestamp, spec, isJudged(service)];
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
