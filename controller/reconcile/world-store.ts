/** Keeps the world that steps are decided from: one change costs what it changes. */
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { type Namespace, type Node } from '../../lib/services/cluster.ts';
import { type NodeReport } from '../../lib/services/node-report.ts';
import { type AddressPool, type VirtualIp } from '../../lib/services/objects.ts';
import { type Service } from '../../lib/services/services.ts';
import { type StepKey, type WaitsFor } from './step.ts';
import { type Settings, type World } from './world.ts';

/** What is to be looked at after a change: these keys, and all keys whose last step waits for one of these. */
export interface Affected {
  readonly keys: readonly StepKey[];
  readonly wakes: ReadonlySet<WaitsFor>;
}

/** Addresses that no pool may give. */
export interface ReservedAddresses {
  /** `A-B`, a CIDR, or one address. */
  readonly range: string;
  /** For people: "the API's VIP", "Services' ClusterIPs", "node master-1". */
  readonly owner: string;
}

/** The objects, and what finds them. Informers' changes go in; whoever runs the queue asks for `view`. */
export class WorldStore {
  constructor(settings: Settings) {
    void settings;
  }

  changeService(_change: Change<Service>): Affected {
    throw new Error('to come');
  }

  changeVirtualIp(_change: Change<VirtualIp>): Affected {
    throw new Error('to come');
  }

  changePool(_change: Change<AddressPool>): Affected {
    throw new Error('to come');
  }

  changeNamespace(_change: Change<Namespace>): Affected {
    throw new Error('to come');
  }

  changeNode(_change: Change<Node>): Affected {
    throw new Error('to come');
  }

  /** What a living node says; null when its Lease has run out or is gone. */
  changeReport(_node: string, _report: NodeReport | null): Affected {
    throw new Error('to come');
  }

  /** Besides nodes' own addresses and Services' ClusterIPs, which the store knows: the API's VIPs, apiservers, ranges of ClusterIPs; VRIDs of others. */
  reserve(_addresses: readonly ReservedAddresses[], _vrids: ReadonlySet<number>): Affected {
    throw new Error('to come');
  }

  /** The world at a date. It changes with the store. */
  view(_nowMs: number): World {
    throw new Error('to come');
  }
}
