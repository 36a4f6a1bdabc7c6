import { type Clock } from '../../lib/control/clock.ts';
import { type Random } from '../../lib/control/random.ts';
import { type ApiRoute } from '../../lib/kubernetes/route.ts';
import { type BalancerKernel } from '../../lib/kernel/real/balancer-tables.ts';
import { type AddressPool, type VirtualIp } from '../../lib/services/objects.ts';
import { type DrainingEndpoint, type NodeReport } from '../../lib/services/node-report.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { type PlacedAddress } from '../../lib/kernel/netlink/addresses.ts';
import { type NodeHealth } from '../nodes/node-health.ts';
import { type BalancerObserver } from '../report/balancer-counts.ts';
import { type Standing } from '../report/standing.ts';

/** What the balancer needs of the world. */
export interface BalancerPorts {
  readonly route: ApiRoute;
  readonly kernel: BalancerKernel;
  /** The addresses of this host. */
  readonly readAddresses: () => Promise<readonly PlacedAddress[]>;
  /** Of this host, see there. */
  readonly findRouted: (addresses: readonly string[]) => Promise<readonly string[]>;
  /** Of this host, see there. */
  readonly listStrictTunnels: () => Promise<readonly string[]>;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** The name of this node, as the API has it. */
  readonly node: string;
  /** Whether the controller counts on this node, by the renewals of its Lease. */
  readonly standing: Standing;
  /** Notified after each look at what has changed, whether or not all could be written. */
  readonly listener: BalancerListener;
  readonly observer: BalancerObserver;
  readonly nodes: NodeWatch;
}

/** Who asks other nodes whether they live. */
export type NodeWatch = Pick<NodeHealth, 'outages' | 'watch'>;

/** What this node has to do with, and what its kernel has of it. */
export interface BalancerView extends Pick<NodeReport, 'programmed' | 'mode'> {
  /** These are the same arrays while nothing has happened to them. */
  readonly pools: readonly AddressPool[];
  readonly virtualIps: readonly VirtualIp[];
  readonly draining: readonly DrainingEndpoint[];
  /** Whether a pod gets connections that waits to be called ready. */
  readonly isAnyEarly: boolean;
  /** Whether early EndpointSlices say of a pod that it ends. */
  readonly isAnyEnding: boolean;
  /** The Services that are kube-proxy's although nobody asks for that, to why: a clause. */
  readonly left: ReadonlyMap<string, string>;
  /** The Services of which this node drops clients that other nodes send on, to why: a clause. */
  readonly dropping: ReadonlyMap<string, string>;
}

/** Who holds the addresses, and says what this node has done. */
export interface BalancerListener {
  changed(view: BalancerView): void;
}
