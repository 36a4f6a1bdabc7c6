/** What the Kubernetes API has of Services, and what the network of this host says of pools' addresses. */
import { planSeats } from '../../../balancer/main.ts';
import { listSubnets } from '../../../lib/keepalived/subnets.ts';
import { type Address } from '../../../lib/address/address.ts';
import { isInSubnet } from '../../../lib/address/subnet.ts';
import { type Clock } from '../../../lib/control/clock.ts';
import { findAddressUsers } from '../../../lib/kernel/host/address-use.ts';
import { type NeighbourQuestion } from '../../../lib/kernel/host/neighbours.ts';
import { readPlacedAddresses } from '../../../lib/kernel/netlink/addresses.ts';
import { createLister } from '../../../lib/kubernetes/object-lister.ts';
import { type ApiRoute } from '../../../lib/kubernetes/route.ts';
import { parseObjectName } from '../../../lib/services/address-name.ts';
import { earlySlices } from '../../../lib/services/early-slices.ts';
import { devices } from '../../../lib/services/devices.ts';
import { toLeaseResource } from '../../../lib/services/node-report.ts';
import { type AddressPool, addressPools, type VirtualIp, virtualIps } from '../../../lib/services/objects.ts';
import { countAddresses, getNth, mergeRanges, parseRange } from '../../../lib/services/ranges.ts';
import { endpointSlices, loadBalancerServices } from '../../../lib/services/services.ts';
import { servicesNamespace } from '../../generate/manifest/options.ts';
import { type ServiceObjects, type ServicesView } from '../../services/services-view.ts';
import { viewServices } from '../../services/view-services.ts';

/** What the API has. */
export interface ServicesCluster {
  /** This node's name there. */
  readonly node: string;
  readonly view: ServicesView;
  /** What the view is of. */
  readonly objects: ServiceObjects;
  readonly virtualIps: readonly VirtualIp[];
  /** The seats that this node may hold, and what is left out of them. */
  readonly plan: Awaited<ReturnType<typeof planSeats>>;
}

/** How the API is asked. */
export interface ClusterNeeds {
  readonly route: ApiRoute;
  readonly clock: Clock;
  readonly node: string;
}

/** Asks the API. Rejects as listObjects does, and with NETLINK_FAILED. */
export async function readServicesCluster({ route, clock, node }: ClusterNeeds): Promise<ServicesCluster> {
  const list = createLister(route, clock, new AbortController().signal);
  const pools = await list(addressPools);
  const objects = {
    pools,
    virtualIps: await list(virtualIps),
    services: await list(loadBalancerServices),
    slices: await list(endpointSlices),
    earlySlices: await list(earlySlices),
    pods: [],
    devices: await list(devices),
    leases: await list(toLeaseResource(servicesNamespace)),
  };
  return {
    node,
    view: viewServices(objects, clock.date().getTime()),
    objects,
    virtualIps: objects.virtualIps,
    plan: await planSeats(objects, node),
  };
}

/** As many as the kernel's neighbour table takes beside its own. */
const maxQuestions = 256;

/**
 * Which other host answers for free addresses of pools on this host's links, by address: its MAC. Those that a Service has
 * are on some node of the cluster. At most 256 are asked for. Rejects as findAddressUsers does.
 */
export async function findPoolUsers(
  { view: { pools }, virtualIps: given }: ServicesCluster,
  clock: Clock,
): Promise<ReadonlyMap<string, string>> {
  const placed = await readPlacedAddresses();
  const subnets = listSubnets(placed);
  const local = new Set(placed.map(({ address }) => address));
  const taken = new Set([
    ...local,
    ...given.map(({ metadata: { name } }) => parseObjectName(name)?.text ?? name),
  ]);
  const questions = listFree(pools, taken, maxQuestions).flatMap(({ family, text }): NeighbourQuestion[] => {
    const around = subnets.find((one) => one.family === family && isInSubnet(text, one));
    return around === undefined ? [] : [{ family, address: text, device: around.device }];
  });
  if (questions.length === 0) return new Map();
  return await findAddressUsers(questions, subnets, clock);
}

/** The first free addresses of the pools. Pure. */
export function listFree(
  pools: readonly Pick<AddressPool, 'spec'>[],
  taken: ReadonlySet<string>,
  limit: number,
): Address[] {
  const texts = pools.flatMap(({ spec }) => spec.addresses);
  const ranges = mergeRanges(texts.map(parseRange).filter((range) => range !== null));
  const free: Address[] = [];
  for (const range of ranges) {
    for (let index = 0n; index < countAddresses(range) && free.length < limit; index += 1n) {
      const address = getNth([range], range.family, index);
      if (!taken.has(address.text)) free.push(address);
    }
  }
  return free;
}
