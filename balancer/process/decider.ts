import { isDeepStrictEqual } from 'node:util';
import { families } from '../../lib/address/address.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { type BalancerKernel } from '../../lib/kernel/real/balancer-tables.ts';
import { type MissingFeatures } from '../../lib/kernel/real/nft-features.ts';
import {
  balanceFamilies,
  isLeftToKubeProxy,
  noBalance,
  type ServiceBalance,
} from '../decide/port-balance.ts';
import { type FollowedObjects } from '../follow/followed-objects.ts';
import { NodeUsers } from '../nodes/node-users.ts';
import { type Balances } from '../program/programmer.ts';
import { type LookLog } from './look-log.ts';
import { type AddressPorts, OwnAddresses } from './own-addresses.ts';
import { type NodeWatch } from './ports.ts';
import { RelayWays, type WaysPorts } from './relay-ways.ts';
import { type Place } from '../decide/balanced-service.ts';

/** What it needs of the world. */
export interface DecidePorts extends AddressPorts, WaysPorts {
  readonly kernel: Pick<BalancerKernel, 'listMissingFeatures'>;
  readonly logger: Logger;
  /** As the API names this node. */
  readonly node: string;
  readonly nodes: NodeWatch;
}

/** Somebody loads a module of the kernel, or replaces nft. */
const missingPaceMs = 600_000;

/** Decides how the Services that may have changed are to be balanced. One that cannot be decided about is kube-proxy's, and keeps no other. */
export class Decider {
  readonly #ports: DecidePorts;
  readonly #objects: FollowedObjects;
  readonly #log: LookLog;
  readonly #addresses: OwnAddresses;
  readonly #users = new NodeUsers();
  readonly #ways: RelayWays;
  readonly #left = new Map<string, string>();
  readonly #dropping = new Map<string, string>();
  #missing: MissingFeatures | null = null;
  #missingAskedAt = -Infinity;

  constructor(ports: DecidePorts, objects: FollowedObjects, log: LookLog) {
    this.#ports = ports;
    this.#objects = objects;
    this.#log = log;
    this.#addresses = new OwnAddresses(ports);
    this.#ways = new RelayWays(ports, (services) => {
      objects.touch(services);
    });
  }

  /** The Services that are kube-proxy's although nobody asks for that, to why: a clause. */
  get left(): ReadonlyMap<string, string> {
    return this.#left;
  }

  /** The Services of which this node drops clients that other nodes send on, to why: a clause. */
  get dropping(): ReadonlyMap<string, string> {
    return this.#dropping;
  }

  /** Whether a Service is kube-proxy's: its owner wants that, or this node cannot take it. */
  isLeft(service: string): boolean {
    const found = this.#objects.index.find(service);
    return this.#left.has(service) || (found !== null && isLeftToKubeProxy(found.service));
  }

  /** Asks the kernel no more. */
  stop(): void {
    this.#ways.stop();
  }

  /** To be called when other nodes answer no more, or again. */
  noteOutages(): void {
    this.#objects.touch(this.#users.take(this.#ports.nodes.outages));
  }

  /** The Services that may be balanced otherwise since last asked. Rejects as the kernel does. */
  async decide(): Promise<Map<string, Balances>> {
    const [{ index }, { node, nodes }] = [this.#objects, this.#ports];
    const { zone, vips, endings } = index;
    const missing = await this.#lookForMissing();
    const { moved, areLinksOther } = await this.#addresses.look(vips);
    if (moved.size > 0) index.touch(index.listConcerned(moved));
    const { known: local, uplinks, strictTunnels } = this.#addresses;
    const [{ outages }, { routed }] = [nodes, this.#ways];
    const place: Place = {
      ...{ node, zone, vips, local, uplinks, strictTunnels },
      ...{ routed, outages, endings, missing },
    };
    const decided = new Map<string, Balances>();
    for (const service of index.takeChanged(areLinksOther))
      decided.set(service, this.#decideOne(service, place));
    nodes.watch(this.#users.nodes);
    return decided;
  }

  /** What was missing may come. What was there stays. */
  async #lookForMissing(): Promise<MissingFeatures> {
    const [known, { clock, kernel }] = [this.#missing, this.#ports];
    const isDue = known === null || clock.now() - this.#missingAskedAt >= missingPaceMs;
    if (!isDue || (known !== null && families.every((family) => known[family].length === 0))) return known;
    const asked = kernel.listMissingFeatures();
    const found = known === null ? await asked : await asked.catch(() => known);
    [this.#missing, this.#missingAskedAt] = [found, clock.now()];
    if (known !== null && !isDeepStrictEqual(known, found))
      this.#objects.index.touch(this.#objects.index.balanced);
    return found;
  }

  #decideOne(service: string, place: Place): Balances {
    const found = this.#objects.find(service);
    const { ports, refused, remarks, left, dropping, elsewhere } = attempt(() =>
      balanceFamilies(found, place),
    );
    this.#ways.watch(service, elsewhere);
    this.#users.note(service, ports.length === 0 ? [] : (found?.slices ?? []));
    this.#log.refused(service, refused);
    this.#log.remarks(service, remarks);
    this.#log.left(service, left);
    if (left === null) this.#left.delete(service);
    else this.#left.set(service, left);
    if (dropping === null) this.#dropping.delete(service);
    else this.#dropping.set(service, dropping);
    return ports;
  }
}

/** What is wrong with one Service is not what others wait for. */
function attempt(decide: () => ServiceBalance): ServiceBalance {
  try {
    return decide();
  } catch (error) {
    const left = `vipnat cannot decide about it (${(error as Error).message})`;
    return { ...noBalance, left };
  }
}
