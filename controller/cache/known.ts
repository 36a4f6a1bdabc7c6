import { type EndpointSlice } from '../../lib/kubernetes/resources.ts';
import { type Namespace, type Node, type ServiceCidr } from '../../lib/services/cluster.ts';
import { type DeviceNode } from '../../lib/services/device-nodes.ts';
import { type LoadBalancerDevice } from '../../lib/services/devices.ts';
import { type EarlySlice } from '../../lib/services/early-slices.ts';
import { type NodeReport } from '../../lib/services/node-report.ts';
import { type AddressPool, type VirtualIp } from '../../lib/services/objects.ts';
import { type Pod } from '../../lib/services/pods.ts';
import { type EndpointSlice as ServiceSlice, type Service } from '../../lib/services/services.ts';
import { type DeviceBalancer, type DeviceReport } from './device-reports.ts';
import { type JudgedPool } from './judge-pools.ts';

/** What the controller is told at its start. */
export interface Settings {
  /** Services without a class are ours, too. */
  readonly isDefaultClass: boolean;
  /** The types of readiness gates that wait for nodes. */
  readonly gateTypes: ReadonlySet<string>;
  /** Where the Leases of nodes are. Without it they are read only. */
  readonly namespace?: string;
  /** The device of Services without a class that have annotations of another controller of devices. None unless given. */
  readonly defaultDevice?: string;
}

/** A node that has said nothing since its Lease ran out. */
export interface SilentNode {
  /** The last one that was heard. */
  readonly renewal: string;
  readonly report: NodeReport;
}

/** The Lease of a node, as it was heard last. */
export interface HeardLease {
  readonly metadata: { readonly name: string; readonly uid: string; readonly resourceVersion: string };
  readonly node: string;
  readonly renewal: string;
  /** The renewal since which a controller has judged it to be over; null for none. */
  readonly noted: string | null;
  /** Whether it was renewed since it was heard first. Else nobody knows how old it is. */
  readonly isProven: boolean;
}

/** What there is, by the names of sources: all objects of each, by their keys. */
export interface Objects {
  /** All Services, whatever their type: by `NAMESPACE/NAME`. */
  readonly services: Service;
  readonly virtualIps: VirtualIp;
  readonly pools: AddressPool;
  readonly namespaces: Namespace;
  readonly nodes: Node;
  readonly serviceCidrs: ServiceCidr;
  readonly apiservers: EndpointSlice;
  /** Pods with a gate or a weight, and those that are about to be evicted, by `NAMESPACE/NAME`. */
  readonly pods: Pod;
  /** By `NAMESPACE/NAME`. */
  readonly earlySlices: EarlySlice;
  /** The Leases of nodes, whatever they say. */
  readonly leases: HeardLease;
  /** Nodes whose Lease lives, to what they last reported. See `NodeLeases`. */
  readonly livingReports: NodeReport;
  /** Nodes whose Lease is over. Those that do not exist are among them. */
  readonly silentNodes: SilentNode;
  readonly devices: LoadBalancerDevice;
  /** By `NAMESPACE/NAME`, where there are devices. */
  readonly endpointSlices: ServiceSlice;
  /** Nodes as targets, where there are devices. */
  readonly deviceNodes: DeviceNode;
  /** By the names of devices. */
  readonly deviceReports: DeviceReport;
  /** By `DEVICE UID`: see `toBalancerKey`. */
  readonly deviceBalancers: DeviceBalancer;
}

type Found = ReadonlyMap<string, ReadonlySet<string>>;

/** What finds objects. */
export interface Indexes {
  /** Keys of Services to names of the VirtualIPs that have them in `services` or `leaving`. */
  readonly serviceToVirtualIps: Found;
  /** Share keys to names of the VirtualIPs that are shared under them. */
  readonly shareKeyToVirtualIps: Found;
  /** Pools to names of the VirtualIPs that are of them. */
  readonly poolToVirtualIps: Found;
  /** The same family by family: see `nameFamily`. */
  readonly familyToVirtualIps: Found;
  /** Addresses, in canonical text, to keys of the Services whose status has them, of whatever class. */
  readonly addressToPublishers: Found;
  /** Addresses, in canonical text, to keys of the Services that name them for themselves. */
  readonly addressToClaimers: Found;
  /** `NAMESPACE/LABEL=VALUE`, the first one of a selector, to keys of Services. */
  readonly labelToServices: Found;
  /** Keys of Services to keys of their early EndpointSlices. */
  readonly serviceToSlices: Found;
  readonly namespaceToPods: Found;
  readonly nodeToPods: Found;
  /** Keys of Services to keys of Kubernetes' own EndpointSlices of them. */
  readonly serviceToEndpointSlices: Found;
  /** Names of devices to keys of the Services that choose them, or that they may have something of. */
  readonly deviceToServices: Found;
  /** Keys of Services to keys of what devices have of them. */
  readonly serviceToBalancers: Found;
  /** Addresses, in canonical text, to keys of what devices have there. */
  readonly addressToBalancers: Found;
  /** Addresses, in canonical text, to keys of the Services that ask a device for them. */
  readonly addressToAskers: Found;
}

/** All that is known of objects. It can be behind the API: versions and confirmations of a step are for that. */
export interface Known extends Indexes, Readonly<{ [S in keyof Objects]: ReadonlyMap<string, Objects[S]> }> {
  /** Keys of Services of type LoadBalancer to keys of the pods that they select, and the other way round. */
  readonly serviceToPods: Found;
  readonly podToServices: Found;
  /** Keys of early EndpointSlices to: endpoints, as they are now, to the first version that is known to have them so. See `toEndpointText`. */
  readonly sliceToSince: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** VirtualIPs that somebody deleted while Services had them, or gave them back, as they were: until they are there again. */
  readonly lostVirtualIps: ReadonlyMap<string, VirtualIp>;
  /** The pools, with their ranges read, and why nothing is given of some. */
  readonly judgedPools: ReadonlyMap<string, JudgedPool>;
  readonly settings: Settings;
}
