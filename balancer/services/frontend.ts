/** What is to become of connections to one port of a Service, by the objects alone. */
import {
  type PortBalance,
  type BalancedService,
  type Place,
  maxSourceRanges,
  readSourceRanges,
  listSources,
  noOutages,
  noEndings,
  findUplinks,
  protocolToNumber,
  applyOutages,
  applyEndings,
  listNodes,
  chooseBackends,
  isLocal,
  planRelay,
  listUnresponsive,
  listDraining,
  type Guard,
} from './backends.ts';
import { families, type Family } from '../../lib/net.ts';
import {
  describeMissing,
  describeDropping,
  describeExcess,
  nameTaken,
  listLosses,
  listRemarks,
} from './remarks.ts';
import { listBackends } from '../../lib/api/endpoints.ts';
import { type Service, readAnnotation, readDuration, type Method, methods } from '../../lib/api/service.ts';

/** What to balance, a sentence for each endpoint that cannot be used, and one for each setting that is not applied. */
export interface ServiceBalance {
  readonly ports: readonly PortBalance[];
  readonly refused: readonly string[];
  readonly remarks: readonly string[];
  /** Why kube-proxy's rules alone get its connections, although nobody asks for that: a clause. Null where they do not. */
  readonly left: string | null;
  /** See describeDropping. */
  readonly dropping: string | null;
  /** Addresses of endpoints on other nodes, one of each, of which `Place.routed` is to say whether they are reached by a router. */
  readonly elsewhere: readonly string[];
}

/** Of a Service that this node has nothing to do with. */
export const noBalance: ServiceBalance = {
  ...{ ports: [], refused: [], remarks: [], elsewhere: [] },
  ...{ left: null, dropping: null },
};

/** What balanceService answers for both families; nothing for a Service that is gone. */
export function balanceFamilies(balanced: BalancedService | null, place: Place): ServiceBalance {
  const decided = balanced === null ? [] : families.map((family) => balanceService(balanced, family, place));
  const ports = decided.flatMap((one) => one.ports);
  const missing = describeMissing(ports, place.missing);
  if (missing !== null) return { ...noBalance, left: missing };
  return {
    ports,
    refused: decided.flatMap(({ refused }) => refused),
    remarks: [...new Set(decided.flatMap(({ remarks }) => remarks))],
    left: decided.map(({ left }) => left).find((left) => left !== null) ?? null,
    dropping: describeDropping(ports, place),
    elsewhere: [...new Set(decided.flatMap(({ elsewhere }) => elsewhere))],
  };
}

const tooManyRanges = `it has more than ${maxSourceRanges} source ranges`;

/**
 * The ports of a Service that this node balances. A port of policy Local without a pod here, but with one elsewhere, is only sent on:
 * kube-proxy's rules know what to do with connections of this node itself. None is where the Service asks for kube-proxy.
 */
export function balanceService(balanced: BalancedService, family: Family, place: Place): ServiceBalance {
  const { service, slices } = balanced;
  const addresses = balanced.addresses[family];
  if (addresses.length === 0 || isLeftToKubeProxy(service)) return noBalance;
  const ranges = readSourceRanges(service.spec.loadBalancerSourceRanges);
  const left = ranges.isTooLong ? tooManyRanges : describeExcess(balanced);
  if (left !== null) return { ...noBalance, left };
  const refused: string[] = [];
  const general = {
    ...describeService(service),
    family,
    sources: listSources(ranges, family, { addresses, local: place.local }),
  };
  const nodeToAddress = new Map<string, string>();
  const { outages = noOutages, endings = noEndings, routed = new Set() } = place;
  const uplinks = findUplinks(addresses, place.uplinks);
  const ports = (service.spec.ports ?? []).flatMap((port): PortBalance[] => {
    if (!protocolToNumber.has(port.protocol)) return [];
    const own = addresses.filter((address) => !balanced.taken?.has(nameTaken(address, port)));
    if (own.length === 0) return [];
    const query = { family, name: port.name, protocol: port.protocol, weights: balanced.weights };
    const listing = listBackends(slices, query, place.vips);
    refused.push(...listing.refused);
    const present = applyOutages(applyEndings(listing.backends, endings), outages);
    noteNodes(nodeToAddress, service, listNodes(present, place.node));
    const chosen = chooseBackends(service, present, place);
    const relay = isLocal(service)
      ? planRelay(present, { here: place.node, protocol: port.protocol, uplinks, routed })
      : null;
    if (chosen === null && relay === null) return [];
    return [
      {
        ...{ ...general, addresses: own },
        ...{ protocol: port.protocol, port: port.port, relay },
        ...{ isHere: chosen !== null, backends: chosen ?? [], present },
        unresponsive: listUnresponsive(present, outages),
        draining: listDraining(present, chosen ?? [], isLocal(service) ? place.node : null),
      },
    ];
  });
  const losses = listLosses(service, { ports, nodeToAddress, place });
  return {
    ports: addGuard(ports, addresses, { guarded: balanced.guarded ?? new Map(), uplinks }),
    refused,
    remarks: [...listRemarks(balanced, ranges.malformed), ...losses],
    left,
    dropping: describeDropping(ports, place),
    elsewhere: [...nodeToAddress.values()],
  };
}

/** The first port has it. */
function addGuard(
  ports: readonly PortBalance[],
  addresses: readonly string[],
  { guarded, uplinks }: Required<Pick<BalancedService, 'guarded'>> & Pick<Guard, 'uplinks'>,
): readonly PortBalance[] {
  const own = new Map(
    addresses.flatMap((address) => {
      const named = guarded.get(address);
      return named === undefined ? [] : [[address, named] as const];
    }),
  );
  const [first, ...others] = ports;
  return first === undefined || own.size === 0
    ? ports
    : [{ ...first, guard: { addresses: own, uplinks } }, ...others];
}

function noteNodes(
  nodeToAddress: Map<string, string>,
  service: Service,
  found: ReadonlyMap<string, string>,
): void {
  if (isLocal(service)) for (const [node, address] of found) nodeToAddress.set(node, address);
}

/** Whether the owner of a Service wants kube-proxy's rules alone to have its connections. */
export function isLeftToKubeProxy(service: Service): boolean {
  return readAnnotation(service, 'dataplane') === 'kube-proxy';
}

type General = Pick<PortBalance, 'service' | 'method' | 'affinitySeconds' | 'keepsClient' | 'drainMs'>;

function describeService(service: Service): General {
  const { metadata, spec } = service;
  return {
    service: `${metadata.namespace}/${metadata.name}`,
    method: readMethod(service),
    affinitySeconds: readAffinity(spec),
    keepsClient: spec.externalTrafficPolicy === 'Local',
    drainMs: readDuration(service, 'drainTimeout').ms,
  };
}

function readMethod(service: Service): Method {
  const given = readAnnotation(service, 'method');
  return methods.find((method) => method === given) ?? methods[0];
}

/** Kubernetes' own default: three hours. Source: core/v1, DefaultClientIPServiceAffinitySeconds. */
export const defaultAffinitySeconds = 10_800;

function readAffinity({ sessionAffinity, sessionAffinityConfig }: Service['spec']): number | null {
  if (sessionAffinity !== 'ClientIP') return null;
  return sessionAffinityConfig?.clientIP?.timeoutSeconds ?? defaultAffinitySeconds;
}
