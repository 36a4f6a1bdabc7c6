import { type CandidateNodes } from './candidate-nodes.ts';
import { type GateWorld } from './gate-store.ts';
import { type JudgedPool } from './judge-pools.ts';
import { type KeptBack } from './kept-back.ts';
import { type Namespace, type Node } from '../../lib/services/cluster.ts';
import { type NodeReport } from '../../lib/services/node-report.ts';
import { type AddressPool, type VirtualIp } from '../../lib/services/objects.ts';
import { type Service } from '../../lib/services/services.ts';

/** What the controller is told at its start. */
export interface Settings {
  /** Services without a class are ours, too. */
  readonly isDefaultClass: boolean;
  /** The types of readiness gates that wait for nodes. */
  readonly gateTypes: ReadonlySet<string>;
  /** Where the Leases of nodes are. Without it they are read only. */
  readonly namespace?: string;
}

/** A node that has said nothing since its Lease ran out. */
export interface SilentNode {
  /** The last one that was heard. */
  readonly renewal: string;
  readonly report: NodeReport;
}

/** The Lease of a node, as it was heard last. */
export interface HeardLease {
  readonly node: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly renewal: string;
  /** The renewal since which a controller has judged it to be over; null for none. */
  readonly noted: string | null;
}

/**
 * All that steps are decided from. `WorldStore` keeps one. It can be behind the API: versions and confirmations of a step are for
 * that.
 */
export interface World {
  /** All Services, whatever their type: by `NAMESPACE/NAME`. */
  readonly services: ReadonlyMap<string, Service>;
  readonly virtualIps: ReadonlyMap<string, VirtualIp>;
  /** Those that somebody deleted while Services had them, or gave them back, as they were: until they are there again. */
  readonly lostVirtualIps: ReadonlyMap<string, VirtualIp>;
  /** VirtualIPs to when they were first looked at as they are now wanted, as milliseconds since 1970. */
  readonly generationMs: ReadonlyMap<string, number>;
  /** VirtualIPs to the version that was heard first of what is now wanted of them. */
  readonly generationVersions: ReadonlyMap<string, string>;
  readonly pools: ReadonlyMap<string, AddressPool>;
  /** The same pools, with their ranges read, and why nothing is given of some. */
  readonly judgedPools: ReadonlyMap<string, JudgedPool>;
  readonly namespaces: ReadonlyMap<string, Namespace>;
  readonly nodes: ReadonlyMap<string, Node>;
  /** Nodes whose Lease lives, to what they last reported. See `NodeLiveness`. */
  readonly livingReports: ReadonlyMap<string, NodeReport>;
  /** Nodes whose Lease is over. Those that do not exist are among them. */
  readonly silentNodes: ReadonlyMap<string, SilentNode>;
  /** By their names. */
  readonly leases: ReadonlyMap<string, HeardLease>;
  /** What living nodes have programmed, pool by pool. */
  readonly candidates: CandidateNodes;
  /** Keys of Services to names of the VirtualIPs that have them in `services` or `leaving`. */
  readonly serviceToVirtualIps: ReadonlyMap<string, ReadonlySet<string>>;
  /** Addresses, in canonical text, to keys of the Services whose status has them, of whatever class. */
  readonly addressToPublishers: ReadonlyMap<string, ReadonlySet<string>>;
  /** Addresses that Services name for themselves. */
  readonly keptBack: KeptBack;
  /** Share keys to names of the VirtualIPs that are shared under them. */
  readonly shareKeyToVirtualIps: ReadonlyMap<string, ReadonlySet<string>>;
  /** Pools to names of the VirtualIPs that are of them. */
  readonly poolToVirtualIps: ReadonlyMap<string, ReadonlySet<string>>;
  /** VRIDs on the pools' networks that others have: the API's virtual IPs. */
  readonly reservedVrids: ReadonlySet<number>;
  /** Keys of Services whose status another program rewrites, to who may be it: names of field managers, or none. */
  readonly contested: ReadonlyMap<string, readonly string[]>;
  readonly gates: GateWorld;
  readonly settings: Settings;
  /** The date, as milliseconds since 1970. It can jump. */
  readonly nowMs: number;
}

/** Only who writes can find out that another program does, too. */
export const uncontested: World['contested'] = new Map();
