/** What is to become of connections to one port of a Service, by the objects alone. */
import { families, type Family } from '../../lib/address/address.ts';
import { listBackends, type Backend } from '../../lib/services/endpoints.ts';
import { type Method, methods } from '../../lib/services/methods.ts';
import { type EndpointSlice, type Service } from '../../lib/services/services.ts';
import { chooseBackends, isLocal, listDraining } from './choose-backends.ts';
import { applyEndings, type NodeEndings, noEndings } from './node-endings.ts';
import { applyOutages, listSilent, type NodeOutages, noOutages } from './node-outages.ts';
import { listNodes, planRelay, type Relay } from './relay.ts';
import { readAnnotation, readDuration } from '../../lib/services/wishes.ts';
import { nameTaken } from './taken-ports.ts';
import { describeDropping, listLosses, listRemarks } from './remarks.ts';
import { findUplinks } from './uplinks.ts';
import { type PlacedAddress } from '../../lib/kernel/netlink/addresses.ts';
import { type MissingFeatures } from '../../lib/kernel/real/nft-features.ts';
import { describeMissing } from './needs.ts';
import { describeExcess } from './size.ts';
import { listSources, maxSourceRanges, readSourceRanges } from './source-ranges.ts';

/** Transport protocols that a Service can have, to their numbers. */
export const protocolToNumber: ReadonlyMap<string, string> = new Map([
  ['TCP', '6'],
  ['UDP', '17'],
  ['SCTP', '132'],
]);

/** Connections to one port of a Service, at its addresses of one family. */
export interface PortBalance {
  readonly family: Family;
  /** `NAMESPACE/NAME`. */
  readonly service: string;
  readonly addresses: readonly string[];
  /** A key of protocolToNumber. */
  readonly protocol: string;
  readonly port: number;
  readonly method: Method;
  /** For how long a client stays with its endpoint; null for not at all. */
  readonly affinitySeconds: number | null;
  /** Who may come; null for everybody. */
  readonly sources: readonly string[] | null;
  /** Whether the endpoints see the client's own address. Then all of them are on this node. */
  readonly keepsClient: boolean;
  /** Whether this node decides: not with policy Local and all endpoints elsewhere. kube-proxy's rules do then. */
  readonly isHere: boolean;
  /** How connections from outside get to other nodes while this one holds the address; null for not at all. */
  readonly relay: Relay | null;
  /** Where new connections go, sorted; empty when there is nobody: then they are refused, if this node decides. */
  readonly backends: readonly WeightedEnd[];
  /** With the method `lc`: what each of them gets, as `nameEnd` names it, see `shareByCounts`. Absent while nothing was counted. */
  readonly parts?: ReadonlyMap<string, number>;
  /** All that the slices have, also those that take no new connection. */
  readonly present: readonly End[];
  /** Those on nodes that do not answer, while others take their connections; absent for none. */
  readonly silent?: readonly End[];
  /** Those that end, or have no weight, and take no new connection here: they may have open ones. */
  readonly draining: readonly End[];
  /** For how many milliseconds they may keep these; null for as long as they are there. */
  readonly drainMs: number | null;
  /** Of the first port of a Service. */
  readonly guard?: Guard;
}

/** Addresses of which this Service's part of the table refuses all ports that no Service names. */
export interface Guard {
  /** To the ports that Services name, also those that are kube-proxy's: `PROTOCOL NUMBER . PORT`. */
  readonly addresses: ReadonlyMap<string, readonly string[]>;
  /** See `findUplinks`. */
  readonly uplinks: readonly string[] | null;
}

/** Where connections to a port go. */
export type End = Pick<Backend, 'address' | 'port'>;

/** The same, with its share of new connections: the usual weight where none is said. */
export type WeightedEnd = End & Partial<Pick<Backend, 'weight'>>;

/** What a port's chains and sets are called after: `default/web/tcp/80`. */
export function identifyPort({ service, protocol, port }: PortBalance): string {
  return `${service}/${protocol.toLowerCase()}/${port}`;
}

/** What an endpoint is called in the maps of a table. */
export function nameEnd({ address, port }: End): string {
  return `${address} . ${port}`;
}

/** A port's protocol as the kernel knows it. */
export function toProtocolNumber({ protocol }: PortBalance): string {
  return protocolToNumber.get(protocol) ?? '';
}

/** A Service, as far as this node is to balance it. */
export interface BalancedService {
  readonly service: Service;
  readonly slices: readonly EndpointSlice[];
  /** Addresses of endpoints to their weights; those that are not there have the usual one. */
  readonly weights: ReadonlyMap<string, number>;
  /** Those that a VirtualIP gives it. */
  readonly addresses: Readonly<Record<Family, readonly string[]>>;
  /** Ports of these addresses, as `nameTaken` names them, to another Service that had the address before; none when left out. */
  readonly taken?: ReadonlyMap<string, string>;
  /** Those of them that it guards for all Services that share them, to the ports that these name, as `PROTOCOL NUMBER . PORT`. */
  readonly guarded?: ReadonlyMap<string, readonly string[]>;
}

/** Where this is. */
export interface Place {
  /** The name of this node. */
  readonly node: string;
  /** The addresses of this host, but those of Services. */
  readonly local: ReadonlySet<string>;
  /** The addresses of Services. */
  readonly vips: ReadonlySet<string>;
  /** The zone of this node; null where it has none, or nobody has said it. */
  readonly zone: string | null;
  /** See `listUplinks`. */
  readonly uplinks: readonly PlacedAddress[] | null;
  /** Addresses of endpoints that packets reach by a router; none when left out. */
  readonly routed?: ReadonlySet<string>;
  /** See `listStrictTunnels`; none when left out. */
  readonly strictTunnels?: readonly string[];
  /** The nodes that do not answer; none when left out. */
  readonly outages?: NodeOutages;
  /** The nodes that end; none when left out. */
  readonly endings?: Pick<NodeEndings, 'has'>;
  /** What rules may not need here; nothing when left out. */
  readonly missing?: MissingFeatures;
}

/** What to balance, a sentence for each endpoint that cannot be used, and one for each wish that is not granted. */
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
        silent: listSilent(present, outages),
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
  return readAnnotation(service, 'way') === 'kube-proxy';
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
