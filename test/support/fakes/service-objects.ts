/** Objects of a cluster with Services, as informers have them, and the world that they make. */
import { type Service, services } from '../../../lib/api/service.ts';
import {
  finalizer,
  loadBalancerClass,
  type AddressPool,
  addressPools,
  type VirtualIp,
  virtualIps,
  gateType,
} from '../../../lib/api/vipnat.ts';
import { parseAddress, toObjectName } from '../../../lib/net.ts';
import {
  type Pod,
  toPodResource,
  type EarlySlice,
  earlySlices,
  toGateTypes,
} from '../../../lib/api/endpoints.ts';
import type { Step } from '../../../controller/step.ts';
import { type Node, nodes, type NodeReport, type Namespace, namespaces } from '../../../lib/api/node.ts';
import { Cache, type ClusterView } from '../../../controller/cache/cache.ts';
import { kinds } from '../../../controller/leadership.ts';
import { toKey } from '../../../lib/kubernetes/client.ts';
import type { StepKey } from '../../../controller/cache/known.ts';

type Fields = Readonly<Record<string, unknown>>;

interface Parts {
  readonly metadata?: Fields;
  readonly spec?: Fields;
  readonly status?: Fields;
}

/** The moment of these worlds. */
export const nowMs = Date.parse('2027-01-15T08:00:00Z');

/** Of `KEY`: ours, with one port, and with the finalizer. */
export function makeService(key: string, { metadata, spec, status }: Parts = {}): Service {
  const [namespace, name] = key.split('/');
  return services.schema.parse({
    metadata: {
      ...{ namespace, name, uid: `uid of ${key}`, resourceVersion: '10' },
      ...{ finalizers: [finalizer], ...metadata },
    },
    spec: {
      ...{ type: 'LoadBalancer', loadBalancerClass, ipFamilies: ['IPv4'] },
      ...{ ipFamilyPolicy: 'SingleStack', ports: [{ port: 80 }], ...spec },
    },
    status,
  });
}

/** What a status has that publishes addresses. */
export function publish(...ips: readonly string[]): Fields {
  return { loadBalancer: { ingress: ips.map((ip) => ({ ip, ipMode: 'VIP' })) } };
}

/** With the finalizer. */
export function makePool(name: string, spec: Fields, { metadata, status }: Parts = {}): AddressPool {
  return addressPools.schema.parse({
    metadata: {
      ...{ name, uid: `uid of ${name}`, resourceVersion: '10', generation: 1 },
      ...{ finalizers: [finalizer], ...metadata },
    },
    spec,
    status,
  });
}

/** Of an address, for Services by their keys. Nodes have programmed it unless the status says otherwise. */
export function makeVirtualIp(ip: string, users: readonly string[], { metadata, spec, status }: Parts = {}) {
  const address = parseAddress(ip);
  if (address === null) throw new TypeError(`no address: ${ip}`);
  const programmed = { type: 'Programmed', status: 'True', observedGeneration: 1 };
  return virtualIps.schema.parse({
    metadata: {
      name: toObjectName(address),
      uid: `uid of ${ip}`,
      resourceVersion: '20',
      generation: 1,
      ...(users.length === 0 && spec?.['leaving'] === undefined ? {} : { finalizers: [finalizer] }),
      ...metadata,
    },
    spec: { pool: 'pool', seat: 0, shareKey: '', services: users.map(toUser), leaving: [], ...spec },
    status: status ?? { conditions: [programmed] },
  });
}

/** The pod of `KEY` with the usual gate, an address of each family, and containers that are ready since a minute. */
export function makePod(key: string, { metadata, spec, status }: Parts = {}): Pod {
  const [namespace, name] = key.split('/');
  const lastTransitionTime = new Date(nowMs - 60_000).toISOString();
  return toPodResource(new Set()).schema.parse({
    metadata: {
      ...{ namespace, name, uid: `uid of ${key}`, resourceVersion: '30' },
      ...{ labels: { app: 'web' }, creationTimestamp: new Date(nowMs - 90_000).toISOString(), ...metadata },
    },
    spec: { nodeName: 'w1', readinessGates: [{ conditionType: gateType }], ...spec },
    status: {
      podIP: '10.1.0.5',
      podIPs: [{ ip: '10.1.0.5' }, { ip: 'fd01::5' }],
      conditions: [{ type: 'ContainersReady', status: 'True', lastTransitionTime }],
      ...status,
    },
  });
}

/** An early EndpointSlice as the API has it, when a step of ours wrote it. */
export function makeEarlySlice(step: Step, resourceVersion: string): EarlySlice {
  if (step.does !== 'write') throw new TypeError('nothing is written');
  const { metadata, ...fields } = step.write.body as { metadata: object };
  const [namespace = ''] = step.write.key.split('/');
  const added = { namespace, uid: `uid of ${step.write.key}`, resourceVersion, generation: 1 };
  return earlySlices.schema.parse({ ...fields, metadata: { ...metadata, ...added } });
}

/** What a VirtualIP has for a Service. */
export function toUser(key: string): { namespace: string; name: string; uid: string } {
  const [namespace = '', name = ''] = key.split('/');
  return { namespace, name, uid: `uid of ${key}` };
}

/** With labels and one address. */
export function makeNode(
  name: string,
  labels: Readonly<Record<string, string>> = {},
  ip?: string,
  ready = 'True',
): Node {
  const addresses = ip === undefined ? [] : [{ type: 'InternalIP', address: ip }];
  const metadata = { name, uid: name, resourceVersion: '1', labels };
  const status = { addresses, conditions: [{ type: 'Ready', status: ready }] };
  return nodes.schema.parse({ metadata, status });
}

/** Of a node that has programmed all up to a version, and holds the first seat of the pool `pool`. */
export function makeReport(node: string, version: number, parts: Partial<NodeReport> = {}): NodeReport {
  const text = String(version);
  return {
    node,
    programmed: { virtualips: text, services: text },
    announced: text,
    seats: ['pool/0'],
    mode: 'direct',
    inUse: [],
    ...parts,
  };
}

export interface Inventory {
  readonly services?: readonly Service[];
  readonly virtualIps?: readonly VirtualIp[];
  readonly pools?: readonly AddressPool[];
  readonly namespaces?: readonly Namespace[];
  readonly nodes?: readonly Node[];
  readonly pods?: readonly Pod[];
  readonly earlySlices?: readonly EarlySlice[];
  readonly reports?: readonly NodeReport[];
  /** Those of them whose Lease is over since. Its last renewal was `last`. */
  readonly unresponsive?: readonly string[];
}

export function makeNamespace(name: string, labels: Readonly<Record<string, string>>): Namespace {
  return namespaces.schema.parse({ metadata: { name, uid: name, resourceVersion: '1', labels } });
}

/** A cache that has heard of all of it. */
export function makeCache(inventory: Inventory): Cache {
  const cache = new Cache({ isDefaultClass: false, gateTypes: toGateTypes([]) }, kinds);
  for (const source of [
    ...['namespaces', 'nodes', 'pools', 'virtualIps', 'services', 'pods', 'earlySlices'],
  ] as const)
    for (const object of inventory[source] ?? []) cache.take(source, { key: toKey(object), after: object });
  for (const report of inventory.reports ?? []) cache.takeReport(report.node, report);
  for (const node of inventory.unresponsive ?? []) cache.markUnresponsive(node, 'last');
  return cache;
}

export function makeWorld(inventory: Inventory): ClusterView {
  return makeCache(inventory).view(nowMs);
}

export function toServiceKey(key: string): StepKey {
  return { kind: 'Service', key };
}
