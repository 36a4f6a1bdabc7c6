import { type HeardReport } from '../seats/read-reports.ts';
import { type EarlySlice } from '../../lib/services/early-slices.ts';
import { isProgrammed, mayFollowEarly, type NodeReport } from '../../lib/services/node-report.ts';
import { type EndpointSlice } from '../../lib/services/services.ts';
import { type WaitingPod } from './waiting-pods.ts';

/** What an endpoint does: takes new connections, ends, or is not ready. */
export type PodState = 'ready' | 'ending' | 'not ready';

/** A pod behind a Service, or whatever has its address. */
export interface PodView {
  readonly address: string;
  /** `8080`, or several separated by commas. */
  readonly ports: string;
  readonly state: PodState;
  /** It ends, and still answers: new connections go there if nobody is ready. */
  readonly isServingLast: boolean;
  /** Null where nobody says. */
  readonly node: string | null;
  /** Only a readiness gate keeps it from being ready: nodes learn of it first. Null for any other pod. */
  readonly gate: GateView | null;
  /** What nodes say of the connections that it still has; null where no node says that it drains. */
  readonly draining: DrainView | null;
}

/** A pod that waits for a readiness gate of vipnat. */
export interface GateView {
  /** `NAMESPACE/NAME`; null where the pod was not read. */
  readonly pod: string | null;
  /** Since when it lacks nothing else, as the API writes dates; null where the pod was not read. */
  readonly since: string | null;
  /** The living nodes that may hold an address of the Service, and have not reported that they send connections to it. */
  readonly nodes: readonly string[];
}

/** A pod that gets no new connection. */
export interface DrainView {
  /** By the first node that says so, as the API writes dates. */
  readonly since: string;
  /** Of all nodes; null before any of them has counted. */
  readonly connections: number | null;
  /** Each node that says so. */
  readonly nodes: readonly NodeDrain[];
}

/** How an endpoint drains on a node. */
export interface NodeDrain extends Pick<DrainView, 'since' | 'connections'> {
  readonly node: string;
}

type Endpoint = NonNullable<EndpointSlice['endpoints']>[number];

/** The pods of some slices, each once, in the order of their addresses as texts. Pure. */
export function listPods(slices: readonly EndpointSlice[]): PodView[] {
  const addressToPod = new Map<string, PodView>();
  for (const slice of slices) {
    const ports = (slice.ports ?? []).flatMap(({ port }) => (typeof port === 'number' ? [port] : []));
    for (const endpoint of slice.endpoints ?? []) {
      // Of several addresses the first counts: all are the same pod's. Source: discovery/v1, Endpoint.addresses.
      const [address] = endpoint.addresses;
      if (address === undefined) continue;
      const pod = toPod(address, [...new Set(ports)], endpoint);
      addressToPod.set(address, merge(addressToPod.get(address), pod));
    }
  }
  return [...addressToPod.values()].sort((one, other) => (one.address < other.address ? -1 : 1));
}

/** The same pods, with what living nodes say of those of a Service, `NAMESPACE/NAME`, that drain. Pure. */
export function addDrains(
  pods: readonly PodView[],
  service: string,
  reports: readonly HeardReport[],
): PodView[] {
  const said = reports
    .filter(({ isLiving }) => isLiving)
    .flatMap(({ node, draining = [] }) => draining.map((one) => ({ ...one, node })));
  const addressToDrains = Map.groupBy(
    said.filter((one) => one.service === service),
    ({ endpoint }) => endpoint,
  );
  return pods.map((pod) => {
    const drains = addressToDrains.get(pod.address) ?? [];
    const [since] = drains.map((one) => one.since).sort();
    if (since === undefined) return pod;
    const counts = drains.flatMap(({ connections }) => connections ?? []);
    const connections = counts.length === 0 ? null : counts.reduce((sum, count) => sum + count);
    const nodes = drains.map((one) => ({
      node: one.node,
      since: one.since,
      connections: one.connections,
    }));
    return { ...pod, draining: { since, connections, nodes } };
  });
}

/** What gates are judged by. */
export interface GateFacts {
  /** Of the Service. */
  readonly early: readonly EarlySlice[];
  /** Those of its namespace. */
  readonly waiting: readonly WaitingPod[];
  /** The reports of the living nodes that may hold an address of it. */
  readonly candidates: readonly NodeReport[];
}

/**
 * The same pods, with the gates that they wait for: early EndpointSlices call such a pod ready, and Kubernetes does not. Without a controller,
 * only the pod itself shows it. Pure.
 */
export function addGates(pods: readonly PodView[], { early, waiting, candidates }: GateFacts): PodView[] {
  const addressToVersion = new Map(
    early.flatMap(({ metadata, endpoints }) =>
      (endpoints ?? [])
        .filter(({ conditions }) => conditions?.ready === true)
        .flatMap(({ addresses }) => addresses.map((one) => [one, metadata.resourceVersion] as const)),
    ),
  );
  return pods.map((pod) => {
    const version = addressToVersion.get(pod.address);
    const read = waiting.find(({ addresses }) => addresses.includes(pod.address));
    if (pod.state !== 'not ready' || (version === undefined && read === undefined)) return pod;
    const isBehind = (report: NodeReport) =>
      version !== undefined && mayFollowEarly(report) && !isProgrammed(report, 'earlyslices', version);
    const nodes = candidates.filter(isBehind).map(({ node }) => node);
    return { ...pod, gate: { pod: read?.pod ?? null, since: read?.since ?? null, nodes } };
  });
}

/** The slices of the family that has the most endpoints: a pod of two families has an endpoint in each. Pure. */
export function chooseFamily(slices: readonly EndpointSlice[]): readonly EndpointSlice[] {
  const count = (some: readonly EndpointSlice[]) =>
    some.reduce((sum, { endpoints }) => sum + (endpoints?.length ?? 0), 0);
  const byType = [...Map.groupBy(slices, ({ addressType }) => addressType).values()];
  return byType.sort((one, other) => count(other) - count(one))[0] ?? [];
}

/** What is not said is well. Source: discovery/v1, EndpointConditions. */
function toPod(address: string, ports: readonly number[], { conditions, nodeName }: Endpoint): PodView {
  const isReady = conditions?.ready ?? true;
  const isEnding = conditions?.terminating === true;
  return {
    address,
    ports: ports.toSorted((one, other) => one - other).join(','),
    state: isReady ? 'ready' : isEnding ? 'ending' : 'not ready',
    isServingLast: isEnding && (conditions.serving ?? isReady),
    node: nodeName ?? null,
    gate: null,
    draining: null,
  };
}

/** Several slices can have it: for further ports, and while it moves from one to another. The better word counts. */
function merge(before: PodView | undefined, pod: PodView): PodView {
  if (before === undefined) return pod;
  const ports = [...new Set([before.ports, pod.ports].filter((text) => text !== ''))].join(',');
  return { ...(before.state !== 'ready' && pod.state === 'ready' ? pod : before), ports };
}
