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
  };
}

/** Several slices can have it: for further ports, and while it moves from one to another. The better word counts. */
function merge(before: PodView | undefined, pod: PodView): PodView {
  if (before === undefined) return pod;
  const ports = [...new Set([before.ports, pod.ports].filter((text) => text !== ''))].join(',');
  return { ...(before.state !== 'ready' && pod.state === 'ready' ? pod : before), ports };
}
