import { type HeardReport } from '../seats/read-reports.ts';
import { type EarlySlice } from '../../lib/services/early-slices.ts';
import { type EndpointSlice } from '../../lib/services/services.ts';

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
  /** Only a readiness gate keeps it from being ready: nodes learn of it first. */
  readonly isWaitingForGate: boolean;
  /** What nodes say of the connections that it still has; null where no node says that it drains. */
  readonly draining: DrainView | null;
}

/** A pod that gets no new connection. */
export interface DrainView {
  /** By the first node that says so, as the API writes dates. */
  readonly since: string;
  /** Of all nodes; null before any of them has counted. */
  readonly connections: number | null;
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
  const said = reports.filter(({ isLiving }) => isLiving).flatMap(({ draining = [] }) => draining);
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
    return { ...pod, draining: { since, connections } };
  });
}

/** The same pods, with those that early EndpointSlices call ready and Kubernetes does not: gates of vipnat are what they lack. Pure. */
export function addGates(pods: readonly PodView[], early: readonly EarlySlice[]): PodView[] {
  const endpoints = early.flatMap((slice) => slice.endpoints ?? []);
  const ready = endpoints.filter(({ conditions }) => conditions?.ready === true);
  const addresses = new Set(ready.flatMap((endpoint) => endpoint.addresses));
  return pods.map((pod) =>
    pod.state === 'not ready' && addresses.has(pod.address) ? { ...pod, isWaitingForGate: true } : pod,
  );
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
    isWaitingForGate: false,
    draining: null,
  };
}

/** Several slices can have it: for further ports, and while it moves from one to another. The better word counts. */
function merge(before: PodView | undefined, pod: PodView): PodView {
  if (before === undefined) return pod;
  const ports = [...new Set([before.ports, pod.ports].filter((text) => text !== ''))].join(',');
  return { ...(before.state !== 'ready' && pod.state === 'ready' ? pod : before), ports };
}
