import { type IptablesProxyView, findProxies, kubernetesService } from '../../lib/kube-proxy/read.ts';
import type { Sourced } from '../../lib/text.ts';
import { askLoopback } from '../../lib/http/client.ts';
import type { Clock } from '../../lib/clock.ts';
import { listProcesses } from '../../lib/kernel/host.ts';
import { type Family, type Endpoint, toAddressBytes } from '../../lib/net.ts';
import type { ApiView } from '../api.ts';
import {
  type VirtualServer,
  type ServiceServer,
  listServersOnPort,
  findServiceServer,
  type FoundServer,
  ipvsSource,
} from '../../lib/kube-proxy/ipvs.ts';

/** How kube-proxy programs Services on this host; `none` where there is no kube-proxy (Cilium and others). */
export type FoundProxyMode = 'iptables' | 'ipvs' | 'nftables' | 'none';

/** All that shows kube-proxy's mode, both families together. */
export interface ProxyModeEvidence {
  /** What `GET /proxyMode` answered, trimmed; null when nobody answered. */
  readonly asked: string | null;
  readonly configured: FoundProxyMode | 'auto';
  readonly iptables: readonly IptablesProxyView[];
  /** Whether the Service's virtual server is in IPVS. */
  readonly hasIpvsServer: boolean;
  /** Whether the nftables proxy's map sends the ClusterIP to the service's chain. */
  readonly hasNftEntryRule: boolean;
}

/**
 * kube-proxy's mode, and what says so: the configuration, kube-proxy itself, else what is alive in the kernel. A
 * mode that was left leaves rules behind, so what packets meet first counts: DNAT in PREROUTING comes before IPVS.
 * Pure and total.
 */
export function decideProxyMode(result: ProxyModeEvidence): Sourced<FoundProxyMode> {
  const { configured, asked } = result;
  if (configured !== 'auto') return { value: configured, seenIn: '--proxy-mode' };
  if (isProxyMode(asked)) return { value: asked, seenIn: 'reported at 127.0.0.1:10249' };
  const found = findLive(result) ?? findSetUp(result.iptables);
  return found ?? { value: 'none', seenIn: 'no trace of kube-proxy' };
}

/** Whether kube-proxy's answer names a mode. */
export function isProxyMode(answer: string | null): answer is Exclude<FoundProxyMode, 'none'> {
  return answer === 'iptables' || answer === 'ipvs' || answer === 'nftables';
}

/** A mode whose rules for the Service are there. */
function findLive(evidence: ProxyModeEvidence): Sourced<FoundProxyMode> | null {
  const { iptables, hasIpvsServer, hasNftEntryRule } = evidence;
  const alive = iptables.find(isAlive);
  if (alive !== undefined) return toFinding(alive);
  if (hasNftEntryRule) return { value: 'nftables', seenIn: 'nft table ip kube-proxy' };
  // keepalived and others have virtual servers too: kube-proxy's come with rules of its own.
  if (hasIpvsServer && iptables.some(({ hasIpvsRules }) => hasIpvsRules))
    return { value: 'ipvs', seenIn: '/proc/net/ip_vs' };
  const unhooked = iptables.find(({ entryRule }) => entryRule !== null);
  return unhooked === undefined ? null : toFinding(unhooked);
}

/** A mode without rules for the Service: before the first update, or without endpoints. */
function findSetUp(iptables: readonly IptablesProxyView[]): Sourced<FoundProxyMode> | null {
  const hooked = iptables.find(({ isHooked }) => isHooked);
  const value = hooked?.hasIpvsRules === true ? 'ipvs' : 'iptables';
  if (hooked !== undefined) return { value, seenIn: 'nat PREROUTING jumps to KUBE-SERVICES' };
  // Somebody flushed the tables, and kube-proxy may take an hour to notice.
  if (!iptables.some(({ hasKubeProxyChains }) => hasKubeProxyChains)) return null;
  return { value: 'iptables', seenIn: "kube-proxy's chains exist, but have no rules" };
}

/** Rules that packets get to and that lead to the service: they come first, whatever is in nftables. */
export function isAlive({ isHooked, entryRule }: IptablesProxyView): boolean {
  return isHooked && entryRule !== null;
}

function toFinding({ entryRule }: IptablesProxyView): Sourced<FoundProxyMode> {
  return { value: 'iptables', seenIn: entryRule?.seenIn ?? 'nat KUBE-SERVICES' };
}

/** kube-proxy's metrics listener, by default on the loopback address of its bind address's family (--metrics-bind-address). */
const urls = ['http://127.0.0.1:10249/proxyMode', 'http://[::1]:10249/proxyMode'];

/** On loopback an answer takes a millisecond, and one that hangs must not hold up a sync; the longest true one is `nftables`. */
const modeLimits = { limitMs: 250, maxLength: 64 };

/** What kube-proxy answers about its mode (cmd/kube-proxy/app), unchecked; null without an answer. Never throws. */
export async function askProxyMode(): Promise<string | null> {
  for (const url of urls) {
    const answer = await askLoopback(url, modeLimits);
    if (answer?.status === 200) return answer.text.trim();
  }
  return null;
}

/** A restart, also one by a new image, is no absence. */
const restartMs = 60_000;

/** --healthz-bind-address: by default on every address. */
const healthUrls = ['http://127.0.0.1:10256/healthz', 'http://[::1]:10256/healthz'];
const absenceLimits = { limitMs: 250, maxLength: 10_000 };

/** Answers whether rules of kube-proxy have nobody to maintain them, by what kube-proxy answered about its mode: null for nothing. Never rejects. */
export type AskProxyAbsence = (mode: string | null) => Promise<boolean>;

/**
 * Whether nothing of kube-proxy is here: nobody answers at its two ports, and no process that can be seen has its name. Once one
 * was seen, it has to be missed for a minute. kube-proxy may listen elsewhere: an agent that also sees no processes of its host takes it to be
 * gone then.
 */
export function createProxyAbsence(clock: Clock, isSeen = isProxySeen): AskProxyAbsence {
  let wasSeen = false;
  let missedSince: number | null = null;
  return async (mode) => {
    if (mode !== null || (await isSeen())) {
      wasSeen = true;
      missedSince = null;
      return false;
    }
    // When it was last seen says little: syncs can be a minute apart.
    missedSince ??= clock.now();
    return !wasSeen || clock.now() - missedSince >= restartMs;
  };
}

async function isProxySeen(): Promise<boolean> {
  for (const url of healthUrls) if ((await askLoopback(url, absenceLimits)) !== null) return true;
  // Where processes cannot be listed, rules count as kube-proxy's answer.
  const processes = await listProcesses().catch(() => null);
  return processes === null || findProxies(processes).length > 0;
}

/** What syncs leave of one Service for the next, by family: another Service has another. Never changed in place. */
export interface ServiceState {
  readonly endpoints: Readonly<Partial<Record<Family, Sourced<readonly Endpoint[]>>>>;
  /** Who was named once and no longer is, the latest first: asked when all others are dead. */
  readonly previousEndpoints: Readonly<Partial<Record<Family, readonly Endpoint[]>>>;
  /** For how many seconds kube-proxy last kept clients with their backends. */
  readonly affinity: Readonly<Partial<Record<Family, number | null>>>;
  /** What the Kubernetes API said last, or null for nothing. */
  readonly api: ApiView | null;
  /** What kube-proxy had at the API's last answer: later changes of kube-proxy's are newer than that answer. */
  readonly proxyOnly: Readonly<Partial<Record<Family, readonly Endpoint[]>>>;
}

/** The state of a Service of which nothing is known yet. */
export const emptyServiceState: ServiceState = {
  endpoints: {},
  previousEndpoints: {},
  affinity: {},
  api: null,
  proxyOnly: {},
};

/** What is known about the Service default/kubernetes, whose virtual server is to be found. */
export interface ServiceQuestion {
  readonly family: Family;
  /** The ClusterIP, when it is known. */
  readonly clusterIp?: string;
  /** This host's addresses: on a master, its own apiserver's is one of them. */
  readonly localAddresses: readonly string[];
}

/** kube-apiserver's --secure-port, unless it is set. */
const apiserverPort = 6443;

/**
 * Finds the virtual server of default/kubernetes. IPVS knows no names, and a wrong guess would send the control
 * plane's traffic to another Service: without the ClusterIP there must be exactly one that can be it. Pure and total.
 */
export function findKubernetesServer(
  servers: readonly VirtualServer[],
  { family, clusterIp, localAddresses }: ServiceQuestion,
): ServiceServer {
  const question = { ...kubernetesService, family };
  return clusterIp === undefined
    ? guess(listServersOnPort(servers, question), new Set(localAddresses))
    : findServiceServer(servers, { ...question, clusterIp });
}

/**
 * The Service's address is the first of its range, and no other Service's of that range is lower: what is lower than
 * a likely server and could be first of a range may be the right one with its apiservers gone.
 */
function guess(servers: readonly FoundServer[], localAddresses: ReadonlySet<string>): ServiceServer {
  const ordered = servers
    // The apiserver takes address 1 of a range of at least 8 addresses, so its last three bits are 001.
    // Source: pkg/controlplane/apiserver/options, ServiceIPRange.
    .filter(({ value }) => (toAddressBytes(value.clusterIp).at(-1) ?? 0) % 8 === 1)
    .sort((a, b) => Buffer.compare(toAddressBytes(a.value.clusterIp), toAddressBytes(b.value.clusterIp)));
  const last = ordered.findLastIndex(({ value }) => isLikely(value.backends, localAddresses));
  const contenders = ordered.slice(0, last + 1);
  const [only] = contenders;
  if (only !== undefined && contenders.length === 1) return { server: only, reason: null };
  const names = contenders.map(({ value }) => value.clusterIp).join(', ');
  const problem =
    only === undefined
      ? `no virtual server in ${ipvsSource} fits default/kubernetes`
      : `each of ${names} in ${ipvsSource} can be the virtual server of default/kubernetes`;
  return { server: null, reason: `${problem}. Name the ClusterIP with --cluster-ip` };
}

function isLikely(backends: readonly Endpoint[], localAddresses: ReadonlySet<string>): boolean {
  if (backends.length === 0) return false;
  return (
    backends.some(({ address }) => localAddresses.has(address)) ||
    backends.every(({ port }) => port === apiserverPort)
  );
}
