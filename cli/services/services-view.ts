import { type EarlySlice } from '../../lib/services/early-slices.ts';
import { type LoadBalancerDevice } from '../../lib/services/devices.ts';
import { type Lease, type NodeMode } from '../../lib/services/node-report.ts';
import { type AddressPool, type VirtualIp } from '../../lib/services/objects.ts';
import { type Pod } from '../../lib/services/pods.ts';
import { type EndpointSlice, type Service } from '../../lib/services/services.ts';
import { type HeardReport } from '../seats/read-reports.ts';
import { type PodView } from './list-pods.ts';
import { type ControllerView } from './view-controller.ts';
import { type DeviceOfService, type DeviceView } from './view-devices.ts';

/** `no pods`: it has its address, and nobody behind it. `leaving`: it is deleted, or is of another type or class by now. */
export type ServiceState = 'ready' | 'pending' | 'not served' | 'no pods' | 'leaving';

/** How a Service does. */
export interface Judgement {
  readonly state: ServiceState;
  /** In one word: the reason of the controller's condition, or one of `reasons` of judge-service.ts. */
  readonly reason: string;
  /** A sentence without its full stop; null where there is nothing to say. */
  readonly why: string | null;
  /** Since when it is so, as the API writes dates; null where nobody says. */
  readonly since: string | null;
}

/** What the API has of Services. */
export interface ServiceObjects {
  readonly services: readonly Service[];
  readonly slices: readonly EndpointSlice[];
  readonly earlySlices: readonly EarlySlice[];
  /** Some pods with readiness gates: those that are of interest, and may be read. */
  readonly pods: readonly Pod[];
  readonly virtualIps: readonly VirtualIp[];
  readonly pools: readonly AddressPool[];
  /** Load balancers outside of the cluster. */
  readonly devices: readonly LoadBalancerDevice[];
  /** Of vipnat's namespace. */
  readonly leases: readonly Lease[];
}

/** A node that says that it holds an address. */
export interface HolderView {
  readonly node: string;
  readonly mode: NodeMode;
}

/** An address that a Service has, or is about to get or lose. */
export interface AddressView {
  readonly address: string;
  /** Whether the Service's status has it. */
  readonly isPublished: boolean;
  /** Null where it has no VirtualIP for this Service. */
  readonly virtualIp: VirtualIp | null;
  /** `POOL/INDEX`; null without VirtualIP. */
  readonly seat: string | null;
  /** More than one for the moment of a move. */
  readonly holders: readonly HolderView[];
  /** The nodes that may hold it, the one that shall first. */
  readonly nodes: readonly string[];
  /** The device that has it; null for nodes. */
  readonly device: string | null;
}

/** What a Service is judged by. */
export interface ServiceFacts {
  readonly service: Service;
  /** `NAMESPACE/NAME`. */
  readonly key: string;
  readonly addresses: readonly AddressView[];
  readonly pods: readonly PodView[];
  /** The devices that are to have it, or have something of it: the one that it chooses first. None for one that nodes serve. */
  readonly devices: readonly DeviceOfService[];
  readonly slices: readonly EndpointSlice[];
  /** Those that the controller wrote. */
  readonly earlySlices: readonly EarlySlice[];
}

/** A Service of vipnat. */
export interface ServiceView extends ServiceFacts, Judgement {}

/** Whom Services depend on. */
export interface ClusterView {
  readonly controller: ControllerView;
  /** By nodes' names. */
  readonly reports: readonly HeardReport[];
  readonly pools: readonly AddressPool[];
  /** By their names. */
  readonly devices: readonly DeviceView[];
}

/** All Services of vipnat. */
export interface ServicesView extends ClusterView {
  /** By their keys. */
  readonly services: readonly ServiceView[];
}
