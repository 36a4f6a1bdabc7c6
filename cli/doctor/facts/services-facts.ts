/** What checks of Services rest on. */
import { access, readdir } from 'node:fs/promises';
import { locateSeatFiles } from '../../../lib/keepalived/seat-files.ts';
import { findStrictTunnels, inspectBalancer } from '../../../balancer/main.ts';
import { type Clock } from '../../../lib/control/clock.ts';
import { readIfThere } from '../../../lib/files/optional-file.ts';
import { execTool } from '../../../lib/kernel/tools/exec.ts';
import { isInPath } from '../../../lib/kernel/tools/toolbox.ts';
import { type ApiRoute } from '../../../lib/kubernetes/route.ts';
import { type Fact, type NotChecked } from './fact.ts';
import { type GateWait, readGateWaits } from './gate-waits.ts';
import { findPoolUsers, readServicesCluster, type ServicesCluster } from './services-cluster.ts';
import { type HostBalancer, isUsed } from '../../../lib/services/host-balancer.ts';

/** What is known of Services here and in the API. */
export interface ServicesFacts {
  readonly host: HostBalancer;
  /** `1.0.6`; null where nft is not in PATH, or does not say it. */
  readonly nftVersion: string | null;
  readonly keepalived: Fact<SeatsKeepalived>;
  /** A device or a map of Cilium's by its name; null where none is here. */
  readonly cilium: string | null;
  /** A map of Calico's eBPF dataplane; null where none is here. */
  readonly calicoEbpf: string | null;
  /** See `listStrictTunnels`, if tables send connections on to pods of other nodes; none otherwise. */
  readonly strictTunnels: Fact<readonly string[]>;
  readonly cluster: Fact<ServicesCluster>;
  /** Pods that wait for a readiness gate. */
  readonly gateWaits: Fact<readonly GateWait[]>;
  /** Null where the cluster has no webhook. */
  readonly webhook: Fact<WebhookFacts | null>;
  /** By address of a pool that nobody has: the MAC of the host that answers for it. */
  readonly poolUsers: Fact<ReadonlyMap<string, string>>;
}

/** Whether Services are used: here, or in the cluster whose API was asked. Pure. */
export function areServicesUsed({ host, cluster }: ServicesFacts): boolean {
  return isUsed(host) || ('value' in cluster && cluster.value.view.pools.length > 0);
}

/** The keepalived of the seats. */
export interface SeatsKeepalived {
  readonly path: string;
  /** Its configuration; null where there is none. */
  readonly text: string | null;
  /** What keepalived said of a file that it refused to read; empty where it refused none. */
  readonly refusal: string;
}

/** What reading takes. */
export interface ServicesNeeds {
  readonly clock: Clock;
  /** The name of this host's node, unless its balancer has another one. */
  readonly node: string;
  /** Null without credentials. */
  readonly route: ApiRoute | null;
  /** Turns what takes too long, or fails for what the host is like, into an unknown fact. */
  readonly within: <T>(promise: Promise<T>) => Promise<Fact<T>>;
}

/** What API servers know of the webhook of the controller. */
export type WebhookFacts = NonNullable<Awaited<ReturnType<typeof readWebhook>>>;

/** Reads them. Never rejects for what the host is like. */
export async function readServicesFacts(needs: ServicesNeeds): Promise<ServicesFacts> {
  const { clock, route, within } = needs;
  const host = await inspectBalancer();
  const node = host.activity?.node ?? needs.node;
  const ask = async <T>(read: (to: ApiRoute) => Promise<T>): Promise<Fact<T>> =>
    route === null ? notAsked : await within(read(route));
  const [nftVersion, keepalived, cilium, calicoEbpf, strictTunnels, cluster, webhook] = await Promise.all([
    readNftVersion(),
    within(readSeatsKeepalived(host.runDir)),
    findCilium(),
    findCalicoMap(mapsFolder),
    within(findStrictTunnels(host)),
    ask((to) => readServicesCluster({ route: to, clock, node })),
    ask((to) => readWebhook(to)),
  ]);
  const [poolUsers, gateWaits] = await Promise.all([
    'unknown' in cluster ? cluster : within(findPoolUsers(cluster.value, clock)),
    'unknown' in cluster ? cluster : findGateWaits(needs, host, cluster.value),
  ]);
  const here = { host, nftVersion, keepalived, cilium, calicoEbpf, strictTunnels };
  return { ...here, cluster, gateWaits, webhook, poolUsers };
}

/** Loaded late: most hosts are asked without the API. */
async function readWebhook(route: ApiRoute) {
  const { inspectWebhook } = await import('../../../controller/main.ts');
  return await inspectWebhook(route);
}

const notAsked: NotChecked = { unknown: 'not asked: the Kubernetes API needs --kubeconfig' };

/** Of all pods of the cluster, so only where Services are used. */
async function findGateWaits(
  { route, clock, within }: ServicesNeeds,
  host: HostBalancer,
  { objects }: ServicesCluster,
): Promise<Fact<readonly GateWait[]>> {
  if (route === null) return notAsked;
  if (!isUsed(host) && objects.pools.length === 0) return { value: [] };
  return await within(readGateWaits({ route, clock }, objects));
}

async function readSeatsKeepalived(runDir: string): Promise<SeatsKeepalived> {
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

async function findCilium(): Promise<string | null> {
  for (const path of ciliumSigns) {
    const isThere = await access(path).then(
      () => true,
      () => false,
    );
    if (isThere) return path;
  }
  return null;
}

/**
 * The map of a folder by which Felix's eBPF dataplane translates connections to Services; null where there is none, as where Felix
 * writes chains (`cali-…`). Source: felix/bpf/nat/maps.go of Calico 3.29: each version of the map has its number behind the name.
 */
export async function findCalicoMap(folder: string): Promise<string | null> {
  const names = await readdir(folder).catch(() => []);
  const found = names.find((name) => /^cali_v[46]_nat_fe\d*$/.test(name));
  return found === undefined ? null : `${folder}/${found}`;
}
