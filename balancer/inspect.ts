import type { ApiRoute } from '../lib/kubernetes/route.ts';
import {
  type HostBalancer,
  findTrouble,
  nameTable,
  isUsed,
  askBalancerActivity,
  tableName,
} from '../lib/api/balancer.ts';
import { systemClock, sleep } from '../lib/clock.ts';
import { VipnatError, findErrorCode } from '../lib/errors.ts';
import { createBalancerKernel, type BalancerKernel } from '../lib/kernel/kernel.ts';
import { Programmer } from './table/programmer.ts';
import { type Balances, type Place, listUplinks } from './services/backends.ts';
import { createLister, type ListAll } from '../lib/kubernetes/list-watch.ts';
import { ServiceIndex } from './services/index.ts';
import { services, endpointSlices } from '../lib/api/service.ts';
import { earlySlices } from '../lib/api/endpoints.ts';
import { virtualIps } from '../lib/api/vipnat.ts';
import { readPlacedAddresses } from '../lib/kernel/addresses.ts';
import { balanceFamilies, MemoryBudget } from './services/frontend.ts';
import { findRouted } from '../lib/kernel/forwarding.ts';
import { followedNodes } from '../lib/api/node.ts';
import { type ApiObject, type Resource, toKey } from '../lib/kubernetes/client.ts';
import { withNetlinkClient, readTableHandles } from '../lib/kernel/netlink.ts';
import { families } from '../lib/net.ts';
import { shared } from './table/table.ts';
import { listNftObject, trialTable } from '../lib/kernel/nftables.ts';
import {
  type UnreadText,
  iptablesDialects,
  familyToNft,
  type SaveOutput,
  toolName,
} from '../lib/kernel/port.ts';
import { isInPath } from '../lib/kernel/tools.ts';
import { findLockOwner, balancerRole } from '../lib/http/singleton.ts';
import { acceptChains, planAccept } from './table/forward.ts';
import { parseSave } from '../lib/iptables/rules.ts';

/** How Services on a host differ from what they should be. */
export interface ServicesDrift {
  /** What differs, a clause each. */
  readonly drift: readonly string[];
  /** Commands of nft that the balancer would run, a line each; null where the tables were not compared with the API. */
  readonly commands: readonly string[] | null;
  /** Why something was not looked at, a clause each. */
  readonly unread: readonly string[];
}

/** How a command asks the API about this host's node. */
export interface NodeQuestion {
  /** Null without credentials. */
  readonly route: ApiRoute | null;
  /** The node's name, unless its balancer has another one. */
  readonly node: string;
}

/** Judges this host, and compares its tables with the API where there are credentials. Never rejects for what the host is like. */
export async function findServicesDrift(host: HostBalancer, question: NodeQuestion): Promise<ServicesDrift> {
  const compared = await compare(host, question);
  const trouble = findTrouble(host);
  return {
    ...compared,
    drift: [
      ...host.tables
        .filter(({ aliveSeconds }) => aliveSeconds === null)
        .map(({ family }) => `table ${nameTable(family)} does not count: no balancer renewed it for 30 s`),
      ...(trouble === null ? [] : [trouble]),
      ...describeCommands(compared.commands ?? []),
    ],
    unread: [...(host.unread === null ? [] : [host.unread.message]), ...compared.unread],
  };
}

async function compare(host: HostBalancer, { route, node }: NodeQuestion) {
  const fail = (why: string) => {
    return { commands: null, unread: [`the tables were not compared with the Kubernetes API: ${why}`] };
  };
  if (!isUsed(host)) return { commands: null, unread: [] };
  if (route === null) return fail('give --kubeconfig');
  try {
    const { commands } = await planServices(host, route, node);
    return { commands, unread: [] };
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    return fail(error.message);
  }
}

function describeCommands(commands: readonly string[]): string[] {
  if (commands.length === 0) return [];
  const names = [...new Set(commands.flatMap((line) => /\b(ip6? vipnat-lb)\b/.exec(line)?.[1] ?? []))];
  const count = commands.length === 1 ? 'command' : 'commands';
  return [
    `${names.join(', ')}: ${commands.length} ${count} of nft between the table and what the API asks for`,
  ];
}

interface TablesPlan {
  /** Services with an address, ports and a place in the tables. */
  readonly services: number;
  /** Commands of nft, a line each: what the balancer would write, but for the renewal of its tables. Empty where all is there. */
  readonly commands: readonly string[];
}

/** A balancer that runs writes a change some milliseconds after the API has it, and 8 s later where it had to try again. */
const settleMs = 1500;

/**
 * What the balancer of a host would write now that its tables lack. Writes nothing. Where a balancer runs, only what still differs after a
 * second counts. Rejects as listObjects does, and as the kernel does.
 */
export async function planServices(host: HostBalancer, route: ApiRoute, node: string): Promise<TablesPlan> {
  const place = { route, node: host.activity?.node ?? node };
  const plan = await planOnce(place);
  if (host.balancer === null || plan.commands.length === 0) return plan;
  await sleep(systemClock, settleMs);
  return await planOnce(place);
}

/** With credentials, and the node's name as the API has it. */
type TablesPlace = NodeQuestion & { readonly route: ApiRoute };

async function planOnce(place: TablesPlace): Promise<TablesPlan> {
  const wanted = await listBalances(place);
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
  return { services: wanted.size, commands: lines.filter((line) => line !== '' && !renewal.test(line)) };
}

/** A balancer renews its tables whether or not anything changes. */
const renewal = /^(?:flush set|add element) ip6? vipnat-lb alive\b/;

async function listBalances({ route, node }: TablesPlace): Promise<Map<string, Balances>> {
  const list = createLister(route, systemClock, new AbortController().signal);
  const index = new ServiceIndex(node);
  index.takeServices(await listAsChanges(list, services));
  index.takeSlices(await listAsChanges(list, endpointSlices));
  index.takeEarlySlices(await listAsChanges(list, earlySlices));
  index.takeVirtualIps(await listAsChanges(list, virtualIps));
  const placed = await readPlacedAddresses();
  const own = placed.map(({ address }) => address).filter((one) => !index.vips.has(one));
  const { vips } = index;
  const activity = await askBalancerActivity();
  index.early.isControllerAway = activity?.isControllerAway === true;
  // Nobody else asks other nodes.
  const outages = { out: new Set(activity?.out), lost: new Set(activity?.lost) };
  // A balancer of an older version does not say it, and may be without the right to know it.
  const { zone, ending } = activity?.ending === undefined ? await readNodes(index, list) : activity;
  // It says so itself, and why.
  const left = new Set(activity?.left);
  const place: Place = {
    ...{ node, zone: zone ?? null, vips, local: new Set(own), uplinks: listUplinks(placed), outages },
    endings: new Set(ending),
    kept: new Set(activity?.kept),
  };
  const keys = index.takeChanged(true);
  const named = keys.map((key) => [key, left.has(key) ? null : index.find(key)] as const);
  const memories = await createBalancerKernel().listMemories(tableName);
  const found = new MemoryBudget(memories.keys(), keys).admit(named);
  const asked = found.flatMap(([, balanced]) => balanceFamilies(balanced, place).elsewhere);
  const routed = new Set(await findRouted([...new Set(asked)]));
  const balances = found.map(([key, balanced]): [string, Balances] => [
    key,
    balanceFamilies(balanced, { ...place, routed }).ports,
  ]);
  return new Map(balances.filter(([, ports]) => ports.length > 0));
}

async function readNodes(index: ServiceIndex, list: ListAll) {
  try {
    index.takeNodes(await listAsChanges(list, followedNodes));
  } catch (error) {
    // The balancer works without them, too.
    if (findErrorCode(error) !== 'API_FORBIDDEN') throw error;
  }
  return { zone: index.nodes.zone, ending: [...index.nodes.endings.keys()] };
}

async function listAsChanges<T extends ApiObject>(list: ListAll, resource: Resource<T>) {
  return (await list(resource)).map((after) => ({ key: toKey(after), before: null, after }));
}

/** A set has three elements. */
const limitMs = 5000;

/** Those that are there, and for how long they count. Never rejects for what the host is like. */
export async function readHostTables(): Promise<Pick<HostBalancer, 'tables' | 'unread'>> {
  try {
    const handles = await withNetlinkClient('netfilter', (client) => readTableHandles(client, tableName));
    const there = families.filter((family) => handles[family] !== null);
    const tables = there.map(async (family) => {
      const detail = ['set', ...nameTable(family).split(' '), shared.alive];
      const text = await listNftObject(detail, [], limitMs);
      return { family, aliveSeconds: readAliveSeconds(text) };
    });
    return { tables: await Promise.all(tables), unread: null };
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    return { tables: [], unread: error };
  }
}

/** What `nft -n list set` prints of the set, to the seconds that its first element to go has left: `expires 21s512ms`. Pure. */
function readAliveSeconds(text: string): number | null {
  const all = [...text.matchAll(/\bexpires (?:(\d+)s)?(?:(\d+)ms)?/g)];
  const seconds = all.map(([, whole = '0', rest = '0']) => Number(whole) + Number(rest) / 1000);
  return seconds.length === 0 ? null : Math.min(...seconds);
}

/** A map with a port of each Service at most. */
const mapLimitMs = 2000;

/**
 * Whether tables send connections to pods of other nodes. Of IPv4, as the filter is. Each node with a pod has the part that sends
 * them, and so gets packets by that path. Rejects as listNftObject does.
 */
export async function isSendingOn(tables: HostBalancer['tables']): Promise<boolean> {
  if (!tables.some(({ family }) => family === 'ipv4')) return false;
  const text = await listNftObject(['map', ...nameTable('ipv4').split(' '), shared.relays], [], mapLimitMs);
  return text.includes('goto ');
}

interface BalancerRemoval {
  /** The tables that are gone, or would be, with their families: `ip vipnat-lb`. Those of a balancer that was killed at its start are among them. */
  readonly tables: readonly string[];
  /** The tools whose chain for what is forwarded is gone, or would be: `iptables-nft`. */
  readonly chains: readonly string[];
  /** Why the rest is still there. */
  readonly problems: readonly UnreadText[];
}

/** Removes what the balancer has written, or only lists it; nothing while one runs, which would write it again. Never rejects for what the host is like. */
export async function cleanUpServices({ dryRun }: { readonly dryRun: boolean }): Promise<BalancerRemoval> {
  if (!isInPath('nft')) return { tables: [], chains: [], problems: [] };
  const lockOwner = dryRun ? null : await findLockOwner(balancerRole);
  if (lockOwner !== null) {
    const text = `a balancer (pid ${lockOwner.pid}) is running here, so its tables stay: stop it first`;
    return { tables: [], chains: [], problems: [{ code: balancerRole.code, text }] };
  }
  const kernel = createBalancerKernel();
  const tables = await attempt(() => removeTables(kernel, dryRun));
  const places = families.flatMap((family) => iptablesDialects.map((dialect) => ({ family, dialect })));
  const chains = await Promise.all(places.map((place) => attempt(() => removeChains(kernel, place, dryRun))));
  return {
    tables: tables.gone,
    chains: chains.flatMap(({ gone }) => gone),
    problems: [tables, ...chains].flatMap(({ problems }) => problems),
  };
}

/** A balancer before wrote it: senders of VRRP adverts. */
const formerTable = 'vipnat-vrrp';

/** Removes all tables that a balancer writes or wrote, or only finds them. Answers them with their families. Rejects as the kernel does. */
export async function removeTables(
  kernel: Pick<BalancerKernel, 'readHandles' | 'apply'>,
  dryRun: boolean,
): Promise<string[]> {
  const tables: string[] = [];
  for (const name of [tableName, formerTable, trialTable]) {
    const handles = await kernel.readHandles(name);
    const there = families.filter((family) => handles[family] !== null);
    tables.push(...there.map((family) => `${familyToNft[family]} ${name}`));
  }
  const script = tables.map((table) => `delete table ${table}\n`).join('');
  if (!dryRun && script !== '') await kernel.apply(script);
  return tables;
}

async function removeChains(
  kernel: BalancerKernel,
  { family, dialect }: Pick<SaveOutput, 'family' | 'dialect'>,
  dryRun: boolean,
): Promise<string[]> {
  const output = await kernel.readFilter(family, dialect, acceptChains);
  const input = output === null ? '' : planAccept(parseSave(output), []);
  if (input === '') return [];
  if (!dryRun) await kernel.restore({ family, dialect, input });
  return [toolName(family, dialect)];
}

async function attempt(remove: () => Promise<string[]>) {
  try {
    return { gone: await remove(), problems: [] };
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    return { gone: [], problems: [{ code: error.code, text: error.message }] };
  }
}
