/** Who stands behind a Service's port, by its EndpointSlices. */
import { type Address, type Family, parseAddress } from '../address/address.ts';
import { formatEndpoint } from '../address/endpoint.ts';
import { classifyAddress } from '../address/scope.ts';
import { type EndpointSlice } from './services.ts';
import { usualWeight } from './weights.ts';

/** Which of a Service's ports, in which family. */
export interface PortQuery {
  readonly family: Family;
  /** Its name in the Service; empty for a port without one. */
  readonly name: string;
  /** `TCP`, `UDP` or `SCTP`. */
  readonly protocol: string;
  /** Addresses to weights; those that are not there have the usual one. */
  readonly weights?: ReadonlyMap<string, number>;
}

/** One endpoint of one port. */
export interface Backend {
  readonly address: string;
  readonly port: number;
  /** The node that it runs on; null where nobody says. */
  readonly node: string | null;
  readonly zone: string | null;
  /** Takes new connections. The API says so of all endpoints where the Service publishes addresses that are not ready. */
  readonly isReady: boolean;
  /** It takes its leave: its pod is being deleted. */
  readonly isEnding: boolean;
  /** It ends, and still answers. */
  readonly isServingLast: boolean;
  /** How many connections it gets, compared with the others; 0 for none, unless all have 0. */
  readonly weight: number;
  /** Whose clients it is for, by the Service's trafficDistribution; empty for everybody's. */
  readonly forZones: readonly string[];
  readonly forNodes: readonly string[];
}

/** The endpoints that can be used, and a sentence for each that cannot. */
export interface BackendListing {
  readonly backends: readonly Backend[];
  readonly refused: readonly string[];
}

type SliceEndpoint = NonNullable<EndpointSlice['endpoints']>[number];

/**
 * The endpoints of a port in the slices of its Service: each once, by address and port. None may have one of `vips`, the addresses of
 * Services, which would lead back here. The address of a node is one as any other, on this node too: a program may serve there.
 */
export function listBackends(
  slices: readonly EndpointSlice[],
  query: PortQuery,
  vips: ReadonlySet<string>,
): BackendListing {
  const textToBackend = new Map<string, Backend>();
  const refused = new Set<string>();
  for (const { slice, port } of findSlices(slices, query)) {
    for (const endpoint of slice.endpoints ?? []) {
      // Of several addresses the first counts: all are the same pod's. Source: discovery/v1, Endpoint.addresses.
      const [text = ''] = endpoint.addresses;
      const address = parseAddress(text);
      const reason = judgeAddress(address, query, vips);
      if (address === null || reason !== null) {
        refused.add(
          `EndpointSlice ${slice.metadata.namespace}/${slice.metadata.name} names ${text}, ${reason ?? ''}`,
        );
        continue;
      }
      const weight = query.weights?.get(address.text) ?? usualWeight;
      const backend = toBackend(endpoint, { address: address.text, port, weight });
      const key = formatEndpoint({ family: query.family, address: address.text, port });
      textToBackend.set(key, mergeBackends(textToBackend.get(key), backend));
    }
  }
  const backends = [...textToBackend].sort(([one], [other]) => (one < other ? -1 : 1));
  return { backends: backends.map(([, backend]) => backend), refused: [...refused] };
}

/**
 * Those who take new connections: those who are ready, or if none is, those who end and still answer (kube-proxy does the same). Of
 * these, those who have a weight, or if none has, all.
 */
export function chooseServing(backends: readonly Backend[]): readonly Backend[] {
  const ready = backends.filter(({ isReady }) => isReady);
  const serving = ready.length > 0 ? ready : backends.filter(({ isServingLast }) => isServingLast);
  const weighted = serving.filter(({ weight }) => weight > 0);
  return weighted.length > 0 ? weighted : serving;
}

/** Those near this node, where hints say for all who is near whom, and somebody is near it; else all (kube-proxy does the same). */
export function chooseNear(
  backends: readonly Backend[],
  { node, zone }: { readonly node: string; readonly zone: string | null },
): readonly Backend[] {
  const forNode = selectHinted(backends, ({ forNodes }) => forNodes, node);
  if (forNode.length > 0) return forNode;
  const forZone = zone === null ? [] : selectHinted(backends, ({ forZones }) => forZones, zone);
  return forZone.length > 0 ? forZone : backends;
}

function selectHinted(
  backends: readonly Backend[],
  readHints: (backend: Backend) => readonly string[],
  place: string,
): readonly Backend[] {
  if (backends.some((backend) => readHints(backend).length === 0)) return [];
  return backends.filter((backend) => readHints(backend).includes(place));
}

function findSlices(
  slices: readonly EndpointSlice[],
  { family, name, protocol }: PortQuery,
): { slice: EndpointSlice; port: number }[] {
  const addressType = family === 'ipv6' ? 'IPv6' : 'IPv4';
  return slices
    .filter((slice) => slice.addressType === addressType)
    .flatMap((slice) => {
      const found = slice.ports?.find(
        (one) => (one.name ?? '') === name && (one.protocol ?? 'TCP') === protocol,
      );
      return found?.port === undefined || found.port === null || !isPort(found.port)
        ? []
        : [{ slice, port: found.port }];
    });
}

function isPort(port: number): boolean {
  return Number.isInteger(port) && port >= 1 && port <= 65_535;
}

/** Why an endpoint cannot be used; null when it can. */
function judgeAddress(
  address: Address | null,
  { family }: PortQuery,
  vips: ReadonlySet<string>,
): string | null {
  if (address?.family !== family) return `which is not an ${family === 'ipv6' ? 'IPv6' : 'IPv4'} address`;
  if (classifyAddress(address) !== 'unicast')
    return `which is not an address of a pod (${classifyAddress(address)})`;
  return vips.has(address.text) ? 'which is the address of a Service' : null;
}

function toBackend(endpoint: SliceEndpoint, place: Pick<Backend, 'address' | 'port' | 'weight'>): Backend {
  const { nodeName = null, zone = null, hints } = endpoint;
  return {
    ...place,
    node: nodeName,
    zone,
    ...judgeConditions(endpoint),
    forZones: listNames(hints?.forZones),
    forNodes: listNames(hints?.forNodes),
  };
}

/** What is not said is well. Source: discovery/v1, EndpointConditions. */
function judgeConditions({
  conditions,
}: SliceEndpoint): Pick<Backend, 'isReady' | 'isEnding' | 'isServingLast'> {
  const isReady = conditions?.ready ?? true;
  const isEnding = conditions?.terminating === true;
  return { isReady, isEnding, isServingLast: isEnding && (conditions.serving ?? isReady) };
}

function listNames(hints: readonly { readonly name: string }[] | null | undefined): string[] {
  return (hints ?? []).map(({ name }) => name);
}

/** While an endpoint moves from one slice to another both may have it: the better word counts. */
function mergeBackends(before: Backend | undefined, backend: Backend): Backend {
  return before === undefined || (!before.isReady && backend.isReady) ? backend : before;
}
