import {
  type ServicesFacts,
  type Fact,
  type NotChecked,
  type ServicesCluster,
  type GateWait,
} from './facts.ts';
import { isUsed, type HostBalancer } from '../../lib/api/balancer.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ApiRoute } from '../../lib/kubernetes/route.ts';
import { inspectBalancer, findStrictTunnels, planSeats } from '../../balancer/main.ts';
import { locateSeatFiles } from '../../lib/keepalived/write.ts';
import { readIfThere } from '../../lib/files.ts';
import { isInPath, execTool } from '../../lib/kernel/tools.ts';
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { createLister } from '../../lib/kubernetes/list-watch.ts';
import type { AddressPool } from '../../lib/api/vipnat.ts';
import { type Pod, readGateTypes } from '../../lib/api/endpoints.ts';
import { servicesNamespace } from '../command.ts';
import { readServiceObjects } from '../services/read.ts';
import { viewServices, gatedPods, findWaiting } from '../services/read-view.ts';
import { readPlacedAddresses, type NeighbourQuestion, findAddressUsers } from '../../lib/kernel/addresses.ts';
import { listSubnets } from '../../lib/keepalived/read.ts';
import {
  parseObjectName,
  isInSubnet,
  type Address,
  mergeRanges,
  parseRange,
  countAddresses,
  getNth,
} from '../../lib/net.ts';
import type { ServiceObjects } from '../services/view.ts';

/** What Services are looked at with. */
export interface ServicesNeeds {
  readonly clock: Clock;
  /** The name of this host's node, unless its balancer has another one. */
  readonly node: string;
  /** Null without credentials. */
  readonly route: ApiRoute | null;
  /** Turns what takes too long, or fails for what the host is like, into an unknown fact. */
  readonly within: <T>(promise: Promise<T>) => Promise<Fact<T>>;
}

/** Reads them. Never rejects for what the host is like. */
export async function readServicesFacts(needs: ServicesNeeds): Promise<ServicesFacts> {
  const { clock, route, within } = needs;
  const host = await inspectBalancer();
  const node = host.activity?.node ?? needs.node;
  const ask = async <T>(read: (to: ApiRoute) => Promise<T>): Promise<Fact<T>> =>
    route === null ? notAsked : await within(read(route));
  const [nftVersion, keepalived, calicoEbpf, strictTunnels, cluster, webhook] = await Promise.all([
    readNftVersion(),
    within(readSeatsKeepalived(host.runDir)),
    findCalicoMap(mapsFolder),
    within(findStrictTunnels(host)),
    ask((to) => readServicesCluster(to, clock, node)),
    // Loaded late: most hosts are asked without the API.
    ask(async (to) => await (await import('../../controller/main.ts')).inspectWebhook(to)),
  ]);
  const [poolUsers, gateWaits] = await Promise.all([
    'unknown' in cluster ? cluster : within(findPoolUsers(cluster.value, clock)),
    'unknown' in cluster ? cluster : findGateWaits(needs, host, cluster.value),
  ]);
  const cilium = ciliumSigns.find((path) => existsSync(path)) ?? null;
  const here = { host, nftVersion, keepalived, cilium, calicoEbpf, strictTunnels };
  return { ...here, cluster, gateWaits, webhook, poolUsers };
}

const notAsked: NotChecked = { unknown: 'not asked: the Kubernetes API needs --kubeconfig' };

/** Of all pods of the cluster, so only where Services are used. */
async function findGateWaits(needs: ServicesNeeds, host: HostBalancer, { objects }: ServicesCluster) {
  const { route, clock, within } = needs;
  if (route === null) return notAsked;
  if (!isUsed(host) && objects.pools.length === 0) return { value: [] };
  const pods = createLister(route, clock, new AbortController().signal)(gatedPods);
  return await within(pods.then((all) => listGateWaits(objects, all, clock.date().getTime())));
}

async function readSeatsKeepalived(runDir: string) {
  const { file, checkLog } = locateSeatFiles(runDir);
  const [text, refusal] = await Promise.all([readIfThere(file), readIfThere(checkLog)]);
  return { path: file, text, refusal: refusal?.trim() ?? '' };
}

/** It answers in milliseconds. */
const versionLimitMs = 2000;

async function readNftVersion(): Promise<string | null> {
  if (!isInPath('nft')) return null;
  const call = { tool: 'nft', arguments: ['--version'], limitMs: versionLimitMs };
  const { stdout } = await execTool(call).catch(() => ({ stdout: '' }));
  // nft 1.0.6: `nftables v1.0.6 (Lester Gooch #5)`.
  return /^nftables v(\d+(?:\.\d+)+)/.exec(stdout)?.[1] ?? null;
}

/** Where Cilium and Calico pin their maps. */
const mapsFolder = '/sys/fs/bpf/tc/globals';

/** Made by Cilium's agent: Documentation/network/ebpf of Cilium 1.18. The map is there where it replaces kube-proxy. */
const ciliumSigns = [`${mapsFolder}/cilium_lb4_services_v2`, '/sys/class/net/cilium_host'];

/**
 * The map of a folder by which Felix's eBPF dataplane translates connections to Services; null where there is none, as where Felix
 * writes chains (`cali-…`). Source: felix/bpf/nat/maps.go of Calico 3.29: each version of the map has its number behind the name.
 */
export async function findCalicoMap(folder: string): Promise<string | null> {
  const names = await readdir(folder).catch(() => []);
  const found = names.find((name) => /^cali_v[46]_nat_fe\d*$/.test(name));
  return found === undefined ? null : `${folder}/${found}`;
}

/** Asks the API. Rejects as listObjects does, and with NETLINK_FAILED. */
async function readServicesCluster(route: ApiRoute, clock: Clock, node: string): Promise<ServicesCluster> {
  const list = createLister(route, clock, new AbortController().signal);
  const objects = await readServiceObjects(list, servicesNamespace);
  const view = viewServices(objects, clock.date().getTime());
  return { node, view, objects, plan: await planSeats(objects, node) };
}

/** As many as the kernel's neighbour table takes in addition to its own. */
const maxQuestions = 256;

/**
 * Which other host answers for free addresses of pools on this host's links, by address: its MAC. Those that a Service has
 * are on some node of the cluster. At most 256 are asked for. Rejects as findAddressUsers does.
 */
async function findPoolUsers(cluster: ServicesCluster, clock: Clock): Promise<ReadonlyMap<string, string>> {
  const { pools, virtualIps: given } = cluster.objects;
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

/** The pods that wait, those that have waited longest first. Pure. */
export function listGateWaits(objects: ServiceObjects, pods: readonly Pod[], nowMs: number): GateWait[] {
  const waiting = findWaiting(pods, readGateTypes(objects.leases));
  if (waiting.length === 0) return [];
  const { services } = viewServices({ ...objects, pods }, nowMs);
  const gates = services.flatMap((service) => service.pods.flatMap(({ gate }) => gate ?? []));
  const podToGates = Map.groupBy(gates, ({ pod }) => pod);
  return waiting
    .map(({ pod, since }) => ({
      pod,
      waitedMs: nowMs - Date.parse(since),
      nodes: [...new Set((podToGates.get(pod) ?? []).flatMap(({ nodes }) => nodes))],
    }))
    .sort((one, other) => other.waitedMs - one.waitedMs);
}
