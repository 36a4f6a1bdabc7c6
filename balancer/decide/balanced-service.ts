/** What a Service is to a node that balances it, and what connections to one of its ports are to do. */
import { type Family } from '../../lib/address/address.ts';
import { type Backend } from '../../lib/services/endpoints.ts';
import { type Method } from '../../lib/services/methods.ts';
import { type EndpointSlice, type Service } from '../../lib/services/services.ts';
import { type NodeEndings } from './node-endings.ts';
import { type NodeOutages } from './node-outages.ts';
import { type Relay } from './relay.ts';
import { type PlacedAddress } from '../../lib/kernel/netlink/addresses.ts';
import { type MissingFeatures } from '../../lib/kernel/real/nft-features.ts';

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
