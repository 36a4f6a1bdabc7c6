/** Objects of a cluster with Services, as `vipnat services` reads them: one pool with one seat on w1 or w2, w1 holding it. */
import { nowMs, makePool, makeService, makeVirtualIp, publish } from './service-objects.ts';
import { type NodeReport, type Lease, toLeaseName, toAnnotations } from '../../../lib/api/node.ts';
import { toGateTypesNote, toGateTypes, type EarlySlice, earlySlices } from '../../../lib/api/endpoints.ts';
import { electionLease } from '../../../lib/api/vipnat.ts';
import { type ServiceSlice, endpointSlices } from '../../../lib/api/service.ts';
import type { ServiceObjects } from '../../../cli/services/view.ts';
import type { ServiceDetails } from '../../../cli/services/read.ts';
import { viewServices } from '../../../cli/services/read-view.ts';
import { makeSeat } from './seat-objects.ts';

/** A moment so long before the moment of these worlds, as the API writes it. */
export function ago(seconds: number): string {
  return `${new Date(nowMs - seconds * 1000).toISOString().slice(0, 19)}Z`;
}

/** What a balancer said so long ago: it has programmed all that these objects have, unless its parts say otherwise. */
export function makeNodeLease(node: string, seconds = 2, parts: Partial<NodeReport> = {}): Lease {
  const programmed = { virtualips: '20', services: '10', endpointslices: '10' };
  const report = { node, programmed, seats: [], mode: 'direct', inUse: [], ...parts } as const;
  return {
    metadata: {
      ...{ name: toLeaseName(node), uid: 'u', resourceVersion: '1', generation: 0 },
      annotations: toAnnotations(report),
    },
    spec: { leaseDurationSeconds: 40, renewTime: ago(seconds) },
  };
}

/** The controllers' Lease, renewed so long ago. Its holder opens gates of these types beside the usual one. */
export function makeElection(seconds = 2, holderIdentity = 'c1_x', gates: readonly string[] = []): Lease {
  const annotations = toGateTypesNote(toGateTypes(gates));
  return {
    metadata: { name: electionLease, uid: 'u', resourceVersion: '1', generation: 0, annotations },
    spec: { leaseDurationSeconds: 15, renewTime: ago(seconds), holderIdentity },
  };
}

/** Of a Service: `ready`, `ending`, `serving` (it ends, and still answers) and `not ready` pods, each with its node. */
export function makeSlice(
  key: string,
  pods: readonly (readonly [state: 'ready' | 'ending' | 'serving' | 'not ready', node: string])[],
  { family = 'IPv4', index = 0 }: { family?: 'IPv4' | 'IPv6'; index?: number } = {},
): ServiceSlice {
  const [namespace = '', name = ''] = key.split('/');
  return endpointSlices.schema.parse({
    metadata: {
      ...{ name: `${name}-${index}`, namespace, resourceVersion: '10' },
      labels: { 'kubernetes.io/service-name': name },
    },
    addressType: family,
    endpoints: pods.map(([state, nodeName], at) => ({
      addresses: [family === 'IPv4' ? `10.244.${index}.${at + 1}` : `fd00:244::${index}:${at + 1}`],
      nodeName,
      conditions: {
        ready: state === 'ready',
        terminating: state === 'ending' || state === 'serving',
        serving: state === 'ready' || state === 'serving',
      },
    })),
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  });
}

/** The early EndpointSlice of a Service: pods of `makeSlice`, by their places there, whose gates are what they lack. */
export function makeEarly(key: string, places: readonly number[], resourceVersion = '10'): EarlySlice {
  const [namespace = '', name = ''] = key.split('/');
  return earlySlices.schema.parse({
    metadata: {
      ...{ name: `${name}-vipnat-0`, namespace, uid: 'u', resourceVersion, generation: 1 },
      labels: { 'vipnat.io/service-name': name },
    },
    addressType: 'IPv4',
    endpoints: places.map((place) => ({
      addresses: [`10.244.0.${place}`],
      conditions: { ready: true },
      targetRef: { uid: `uid of ${namespace}/pod-${place}` },
    })),
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  });
}

/** What the API has besides Services, unless parts say otherwise. */
export function makeObjects(parts: Partial<ServiceObjects>): ServiceObjects {
  const seats = [makeSeat(0, '10.0.9.10', ['w1', 'w2'])];
  return {
    services: [],
    slices: [],
    earlySlices: [],
    pods: [],
    virtualIps: [],
    pools: [makePool('pool', { addresses: ['10.0.9.10-10.0.9.19'] }, { status: { seats } })],
    devices: [],
    leases: [makeElection(), makeNodeLease('w1', 2, { seats: ['pool/0'] }), makeNodeLease('w2')],
    ...parts,
  };
}

/** The same with a Service `default/x` that has an address of the pool, and these endpoints. */
export function makeServed(
  pods: Parameters<typeof makeSlice>[1],
  parts: Partial<ServiceObjects> = {},
): ServiceObjects {
  return makeObjects({
    services: [makeService('default/x', { status: publish('10.0.9.10') })],
    virtualIps: [makeVirtualIp('10.0.9.10', ['default/x'])],
    slices: [makeSlice('default/x', pods)],
    ...parts,
  });
}

/** What is shown of its first Service. */
export function toDetails(objects: ServiceObjects): ServiceDetails {
  const view = viewServices(objects, nowMs);
  const [service] = view.services;
  if (service === undefined) throw new Error('there is one');
  return { view, service, events: [] };
}
