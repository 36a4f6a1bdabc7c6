/** What the balancer would write on this host now, by the objects of the Kubernetes API. Writes nothing. */
import { type NodeOutages } from '../decide/node-outages.ts';
import { balanceFamilies } from '../decide/port-balance.ts';
import { listUplinks } from '../decide/uplinks.ts';
import { ServiceIndex } from '../follow/service-index.ts';
import { type Balances, Programmer } from '../program/programmer.ts';
import { type Clock, sleep } from '../../lib/control/clock.ts';
import { type ApiObject, toKey } from '../../lib/kubernetes/api-object.ts';
import { createLister, type ListAll } from '../../lib/kubernetes/object-lister.ts';
import { type Resource } from '../../lib/kubernetes/resources.ts';
import { type ApiRoute } from '../../lib/kubernetes/route.ts';
import { findRouted } from '../../lib/kernel/netlink/next-hops.ts';
import { readPlacedAddresses } from '../../lib/kernel/netlink/addresses.ts';
import { createBalancerKernel } from '../../lib/kernel/real/balancer-tables.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { followedNodes } from '../../lib/services/followed-nodes.ts';
import { earlySlices } from '../../lib/services/early-slices.ts';
import { virtualIps } from '../../lib/services/objects.ts';
import { endpointSlices, services } from '../../lib/services/services.ts';
import { findErrorCode } from '../../lib/text/errors.ts';
import { askBalancerActivity, type BalancerActivity } from '../../lib/services/balancer-activity.ts';
import { type Place } from '../decide/balanced-service.ts';

/** How the API is asked. */
export interface TablesNeeds {
  readonly route: ApiRoute;
  readonly clock: Clock;
  /** This node's name there. */
  readonly node: string;
}

/** What the tables lack. */
export interface TablesPlan {
  /** Services with an address, ports and a place in the tables. */
  readonly services: number;
  /** Commands of nft, a line each: what the balancer would write, but for the renewal of its tables. Empty where all is there. */
  readonly commands: readonly string[];
}

/** A balancer that runs writes a change some milliseconds after the API has it, and 8 s later where it had to try again. */
const settleMs = 1500;

/**
 * Compares this host's tables with the API. With `isKept` a balancer runs here: only what still differs after a second counts.
 * Rejects as listObjects does, and as the kernel does.
 */
export async function planTables(needs: TablesNeeds, isKept: boolean): Promise<TablesPlan> {
  const plan = await planOnce(needs);
  if (!isKept || plan.commands.length === 0) return plan;
  await sleep(needs.clock, settleMs);
  return await planOnce(needs);
}

async function planOnce(needs: TablesNeeds): Promise<TablesPlan> {
  const wanted = await listBalances(needs);
  const scripts: string[] = [];
  const kernel = {
    ...createBalancerKernel(),
    apply: (script: string) => {
      scripts.push(script);
      return Promise.resolve();
    },
  };
  await new Programmer(kernel).update(wanted);
  const lines = scripts.flatMap((script) => script.split('\n'));
  return { services: wanted.size, commands: lines.filter((line) => line !== '' && !isRenewal(line)) };
}

/** A balancer renews its tables whether or not anything changes. */
function isRenewal(line: string): boolean {
  return /^(?:flush set|add element) ip6? vipnat-lb alive\b/.test(line);
}

/** What the balancer of this host knows of other nodes: nobody else asks them. */
function toOutages(activity: BalancerActivity | null): NodeOutages {
  return { out: new Set(activity?.out), lost: new Set(activity?.lost) };
}

async function listBalances({ route, clock, node }: TablesNeeds): Promise<Map<string, Balances>> {
  const list = createLister(route, clock, new AbortController().signal);
  const index = new ServiceIndex(node);
  index.takeServices(await listAsChanges(list, services));
  index.takeSlices(await listAsChanges(list, endpointSlices));
  index.takeEarlySlices(await listAsChanges(list, earlySlices));
  index.takeVirtualIps(await listAsChanges(list, virtualIps));
  const placed = await readPlacedAddresses();
  const own = placed.map(({ address }) => address).filter((one) => !index.vips.has(one));
  const { vips } = index;
  const activity = await askBalancerActivity();
  const outages = toOutages(activity);
  // A balancer of an older version does not say it, and may be without the right to know it.
  const { zone, ending } = activity?.ending === undefined ? await readNodes(index, list) : activity;
  // It says so itself, and why.
  const left = new Set(activity?.left);
  const place: Place = {
    ...{ node, zone: zone ?? null, vips, local: new Set(own), uplinks: listUplinks(placed), outages },
    endings: new Set(ending),
  };
  const found = index.takeChanged(true).map((key) => [key, left.has(key) ? null : index.find(key)] as const);
  const asked = found.flatMap(([, balanced]) => balanceFamilies(balanced, place).elsewhere);
  const routed = new Set(await findRouted([...new Set(asked)]));
  const balances = found.map(([key, balanced]): [string, Balances] => [
    key,
    balanceFamilies(balanced, { ...place, routed }).ports,
  ]);
  return new Map(balances.filter(([, ports]) => ports.length > 0));
}

async function readNodes(
  index: ServiceIndex,
  list: ListAll,
): Promise<Pick<BalancerActivity, 'zone' | 'ending'>> {
  try {
    index.takeNodes(await listAsChanges(list, followedNodes));
  } catch (error) {
    // The balancer goes on without them, too.
    if (findErrorCode(error) !== 'API_FORBIDDEN') throw error;
  }
  return { zone: index.zone, ending: [...index.endings.keys()] };
}

async function listAsChanges<T extends ApiObject>(
  list: ListAll,
  resource: Resource<T>,
): Promise<Change<T>[]> {
  return (await list(resource)).map((after) => ({ key: toKey(after), before: null, after }));
}
