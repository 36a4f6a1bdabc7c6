import type { inspectWebhook } from '../../controller/main.ts';
import type { HostProcess, Rights, InterfaceAddress, Listener } from '../../lib/kernel/host.ts';
import { keepalivedName, type KeepalivedConfiguration, type VrrpAdvert } from '../../lib/keepalived/read.ts';
import type { Endpoint } from '../../lib/net.ts';
import type { Config } from '../../config/options.ts';
import type { HostReading } from '../../agent/main.ts';
import type { ForwardChain } from '../../lib/kernel/port.ts';
import type { ForeignRules } from '../../lib/kernel/iptables.ts';
import type { Drain, GuardView } from '../../lib/files.ts';
import type { ConnectOutcome, Serving } from '../../lib/http/client.ts';
import type { ModuleState } from '../../lib/kernel/forwarding.ts';
import type { OwnerInfo } from '../../lib/http/singleton.ts';
import { isUsed, type HostBalancer } from '../../lib/api/balancer.ts';
import type { ServicesView, ServiceObjects } from '../services/view.ts';
import type { planSeats } from '../../balancer/main.ts';

/** One thing that is looked at. */
export interface Check {
  /** How bad its findings can be. */
  readonly levels: readonly [Level, ...Level[]];
  /** When there is a finding, in a sentence or two of Markdown. */
  readonly meaning: string;
  /** Pure; facts that are unknown make it NotChecked, and nothing else fails by them. */
  readonly find: (facts: HostFacts) => Verdict;
}

/** Checks in the order in which they are reported, by their codes: what a finding is called, for good, in kebab case. */
export type Checks = Readonly<Record<string, Check>>;

/** Whether one of these processes is this host's keepalived, as far as it may be known. */
export function isKeepalivedHere(processes: readonly HostProcess[]): boolean {
  return processes.some(({ name, isSurelyHere }) => name === keepalivedName && isSurelyHere);
}

/** Whether another host shows that it has the address: by an advert, by its link, or by an answer of any kind. */
export function isHeldElsewhere(vip: Endpoint, facts: HostFacts): boolean {
  return isAdvertisedElsewhere(vip, facts) || isAnsweredFor(vip, facts);
}

/** The same, by a host from which no VRRP was received during the capture. */
export function isHeldWithoutVrrp(vip: Endpoint, facts: HostFacts): boolean {
  return 'value' in facts.adverts && !isAdvertisedElsewhere(vip, facts) && isAnsweredFor(vip, facts);
}

/** Whether neither this host nor another one has it, as far as that can be asked at all. */
export function isSurelyFree(vip: Endpoint, facts: HostFacts): boolean {
  const isUnresponsive = findValue(facts.linkHolders)?.get(vip.address) === null;
  return 'value' in facts.adverts && isUnresponsive && !isHeldElsewhere(vip, facts);
}

function isAdvertisedElsewhere({ address }: Endpoint, { adverts, assessment }: HostFacts): boolean {
  const local = findValue(assessment)?.observation.addresses ?? [];
  const isOwn = (source: string) => local.some((own) => own.address === source);
  return (findValue(adverts) ?? []).some((advert) => advertises(advert, address) && !isOwn(advert.source));
}

function isAnsweredFor({ address }: Endpoint, { vipHolderAnswers, linkHolders }: HostFacts): boolean {
  const kind = vipHolderAnswers.get(address)?.kind;
  const isOnLink = (findValue(linkHolders)?.get(address) ?? null) !== null;
  return isOnLink || kind === 'open' || kind === 'refused';
}

/** All that the checks rest on, each part found out by itself. */
export interface HostFacts {
  readonly config: Config;
  /** The flags of this configuration as a shell takes them: `--vip=10.0.0.50:6443`. */
  readonly flags: string;
  /** This vipnat's. */
  readonly version: string;
  readonly now: Date;
  readonly rights: Fact<Rights>;
  /** The tools of toolNames that are in PATH. */
  readonly tools: ReadonlySet<string>;
  readonly assessment: Fact<HostReading>;
  /** nftables' chains for what is forwarded. */
  readonly forwardChains: Fact<readonly ForwardChain[]>;
  /** Rules that packets pass before connections are tracked. */
  readonly earlyRules: Fact<readonly ForeignRules[]>;
  /** Those of nftables that packets to this host pass. */
  readonly inputRules: Fact<readonly ForeignRules[]>;
  /** /proc/net/ip_vs; null where the kernel has no IPVS. */
  readonly ipvs: Fact<string | null>;
  /** By name, those of sysctlNames and of every interface that this kernel has. */
  readonly sysctls: ReadonlyMap<string, string>;
  readonly interfaces: readonly InterfaceAddress[];
  /** Where the default routes lead. */
  readonly gateways: readonly string[];
  /** But for those of seatProcesses. */
  readonly processes: Fact<readonly HostProcess[]>;
  /** Those of the keepalived that holds Services' addresses. */
  readonly seatProcesses: Fact<readonly HostProcess[]>;
  readonly listeners: Fact<readonly Listener[]>;
  /** keepalived's, wherever that has it. */
  readonly keepalived: Fact<KeepalivedConfiguration>;
  /** What is known of the file from which keepalived reads whether this node can serve. */
  readonly trackFile: Fact<
    GuardView & {
      /** What is in it, without blanks around; null where it is not there. */
      readonly content: string | null;
    }
  >;
  /** By path, of filePaths; null for a file that is not there. */
  readonly files: ReadonlyMap<string, Fact<string | null>>;
  /** Whether an agent has remembered apiservers here, in its state folder. */
  readonly hasMemory: Fact<boolean>;
  /** The drain of this host; null where it is not drained. */
  readonly drain: Fact<Drain | null>;
  readonly adverts: Fact<readonly VrrpAdvert[]>;
  /** By VIP address: how a connect ended to a port that no rule of vipnat is about; only VIPs that this host lacks. */
  readonly vipHolderAnswers: ReadonlyMap<string, ConnectOutcome>;
  /** By VIP address: which other host answers for it on a link; null for nobody. Not in it: one that cannot be asked for. */
  readonly linkHolders: Fact<ReadonlyMap<string, LinkHolder | null>>;
  /** By endpoint text; null for one that did not answer. */
  readonly serving: Fact<ReadonlyMap<string, Serving | null>>;
  /** kube-proxy as it answers itself. */
  readonly kubeProxy: {
    /** The status of its health check; null when nobody answers. */
    readonly status: number | null;
    /** `ipvs.excludeCIDRs` of its configuration; null when it does not say. */
    readonly ipvs: { readonly excludeCidrs: readonly string[] } | null;
  };
  /** The services of unitNames that systemd has a unit for. */
  readonly units: ReadonlySet<string>;
  /** By name, those of ipvsModules. */
  readonly modules: ReadonlyMap<string, ModuleState>;
  readonly agent: OwnerInfo | null;
  readonly services: ServicesFacts;
}

/** The tools that are looked for on a host. */
export const toolNames = [
  'iptables-nft-save',
  'iptables-legacy-save',
  'iptables-save',
  'ip6tables-save',
  'nft',
  'inotifywait',
  // Not vipnat's own: what remedies may name.
  'apt-get',
] as const;

/** Services that remedies restart. */
export const unitNames = ['vipnat', 'keepalived', 'kubelet', 'kube-proxy'] as const;

/** What kube-proxy's ipvs mode needs of the kernel. Source: pkg/proxy/ipvs/README.md of Kubernetes 1.36. */
export const ipvsModules = ['ip_vs', 'ip_vs_rr', 'nf_conntrack'] as const;

/** The switches that are asked for by name. */
export const sysctlNames = {
  conntrackCount: 'net.netfilter.nf_conntrack_count',
  conntrackMax: 'net.netfilter.nf_conntrack_max',
  conntrackLoose: 'net.netfilter.nf_conntrack_tcp_loose',
  ipvsConntrack: 'net.ipv4.vs.conntrack',
  arpIgnore: 'net.ipv4.conf.all.arp_ignore',
  arpAnnounce: 'net.ipv4.conf.all.arp_announce',
} as const;

/** Where kubeadm, and most who follow it, put the control plane's files. */
export const filePaths = {
  apiserverManifest: '/etc/kubernetes/manifests/kube-apiserver.yaml',
  agentManifest: '/etc/kubernetes/manifests/vipnat.yaml',
  controllerManager: '/etc/kubernetes/controller-manager.conf',
  scheduler: '/etc/kubernetes/scheduler.conf',
  kubelet: '/etc/kubernetes/kubelet.conf',
  admin: '/etc/kubernetes/admin.conf',
  superAdmin: '/etc/kubernetes/super-admin.conf',
  hosts: '/etc/hosts',
} as const;

/** Whether an advert says that its sender holds an address: one of priority 0 gives it up (RFC 9568, section 5.2.4). */
export function advertises({ addresses, priority }: VrrpAdvert, address: string): boolean {
  return priority > 0 && addresses.includes(address);
}

/**
 * Who else advertises an address at the same time: everybody when two others do, and one when this host has it. A
 * handover is no such thing: there one ends before the next begins. Pure.
 */
export function findDoubles(
  adverts: readonly VrrpAdvert[],
  address: string,
  local: ReadonlySet<string>,
): string[] {
  const spans = new Map<string, { first: number; last: number }>();
  for (const [index, advert] of adverts.entries()) {
    if (!advertises(advert, address)) continue;
    const source = local.has(advert.source) ? 'here' : advert.source;
    spans.set(source, { first: spans.get(source)?.first ?? index, last: index });
  }
  const others = [...spans].filter(([source, { first, last }]) => source !== 'here' && last > first);
  if (local.has(address) && !spans.has('here')) return others.map(([source]) => source);
  return others
    .filter(([source, span]) =>
      [...spans].some(
        ([otherSource, other]) =>
          otherSource !== source && other.first < span.last && span.first < other.last,
      ),
    )
    .map(([source]) => source);
}

/** Another host that answers for an address on a link of this one. */
export interface LinkHolder {
  readonly mac: string;
  /** Other addresses that it answers for, as far as this host has asked lately. */
  readonly addresses: readonly string[];
}

/** What is known of Services here and in the API. */
export interface ServicesFacts {
  readonly host: HostBalancer;
  /** `1.0.6`; null where nft is not in PATH, or does not say it. */
  readonly nftVersion: string | null;
  /** The keepalived of the seats. */
  readonly keepalived: Fact<{
    readonly path: string;
    /** Its configuration; null where there is none. */
    readonly text: string | null;
    /** What keepalived said of a file that it refused to read; empty where it refused none. */
    readonly refusal: string;
  }>;
  /** A device or a map of Cilium's by its name; null where none is here. */
  readonly cilium: string | null;
  /** A map of Calico's eBPF dataplane; null where none is here. */
  readonly calicoEbpf: string | null;
  /** See `listStrictTunnels`, if tables send connections on to pods of other nodes; none otherwise. */
  readonly strictTunnels: Fact<readonly string[]>;
  readonly cluster: Fact<ServicesCluster>;
  readonly gateWaits: Fact<readonly GateWait[]>;
  /** What API servers know of the webhook of the controller; null where the cluster has none. */
  readonly webhook: Fact<Awaited<ReturnType<typeof inspectWebhook>>>;
  /** By address of a pool that nobody has: the MAC of the host that answers for it. */
  readonly poolUsers: Fact<ReadonlyMap<string, string>>;
}

/** Whether Services are used: here, or in the cluster whose API was asked. Pure. */
export function areServicesUsed({ host, cluster }: ServicesFacts): boolean {
  return isUsed(host) || ('value' in cluster && cluster.value.view.pools.length > 0);
}

/** What was found out about this host, or one phrase that says why it could not be. */
export type Fact<T> = { readonly value: T } | NotChecked;

/** What is known of a fact; null where nothing is. */
export function findValue<T>(fact: Fact<T>): T | null {
  return 'value' in fact ? fact.value : null;
}

/** A file of filePaths: null for one that is not there. */
export function findFile({ files }: Pick<HostFacts, 'files'>, path: string): Fact<string | null> {
  return files.get(path) ?? { unknown: `${path} was not read` };
}

/** Whether a file of filePaths is surely not there. */
export function isAbsent(facts: Pick<HostFacts, 'files'>, path: string): boolean {
  const text = findFile(facts, path);
  return 'value' in text && text.value === null;
}

type Level = 'warn' | 'fail';

/** Something that a person should see to. */
export interface Finding {
  /** Without it: the first level of the check. */
  readonly level?: Level;
  /** One line: what is so. */
  readonly title: string;
  /** One or two sentences: why it matters. */
  readonly why: string;
  /** What fixes it: lines for a shell on this host. Where it is to be done elsewhere, or by choice, a comment says so. */
  readonly remedy: readonly string[];
}

/** A check could not be made: why, in one phrase. */
export interface NotChecked {
  readonly unknown: string;
}

/** Why virtual IPs were not checked. */
export const noVip: NotChecked = { unknown: 'no virtual IP is configured' };

/** What is looked for cannot be on this host: why, in one phrase. That is as good as all being well. */
export interface NotHere {
  readonly notHere: string;
}

/** Something was looked at: what was found, and why some of it could not be looked at. */
interface Checked {
  readonly findings: readonly Finding[];
  /** One phrase each. */
  readonly gaps: readonly string[];
}

/**
 * The outcome of a check: what there is to say of the host as a whole, null where nothing is, or what `checkEach` and `checkHost` make of
 * lists, so that a check without any subject is never reported as passed. With `not on this host` the check was not made at all.
 */
export type Verdict = Finding | null | Checked | NotChecked | NotHere | 'not on this host';

/**
 * Checks things one by one. Each gives findings, none or null when it is correct, or why it could not be checked.
 * Without any the verdict is `otherwise`. Pure.
 */
export function checkEach<T>(
  subjects: readonly T[],
  otherwise: NotChecked | NotHere,
  find: (subject: T) => Finding | null | readonly Finding[] | NotChecked,
): Verdict {
  if (subjects.length === 0) return otherwise;
  const all = subjects.map((subject) => find(subject) ?? []);
  return {
    findings: all.flatMap((one) => ('unknown' in one ? [] : one)),
    gaps: [...new Set(all.flatMap((one) => ('unknown' in one ? [one.unknown] : [])))],
  };
}

/** What these have of findings about the host as a whole, where there is always something to look at. */
export function checkHost<T>(all: readonly T[], find: (one: T) => Finding | readonly Finding[]): Verdict {
  return { findings: all.flatMap(find), gaps: [] };
}

type Values<T extends readonly Fact<unknown>[]> = {
  -readonly [K in keyof T]: T[K] extends Fact<infer V> ? V : never;
};

/** What comes of facts that are all known, or else why the first unknown one is. */
export function given<const T extends readonly Fact<unknown>[]>(
  facts: T,
  find: (...values: Values<T>) => Verdict,
): Verdict {
  const gap = facts.find((fact) => 'unknown' in fact);
  if (gap !== undefined && 'unknown' in gap) return { unknown: gap.unknown };
  const values = facts.map((fact) => ('value' in fact ? fact.value : undefined));
  return find(...(values as Values<T>));
}

/** A check by the reading of the host; why there is none, where there is none. */
export function byReading(find: (reading: HostReading, facts: HostFacts) => Verdict): Check['find'] {
  return (facts) => given([facts.assessment], (reading) => find(reading, facts));
}

/** What the API has. */
export interface ServicesCluster {
  /** This node's name there. */
  readonly node: string;
  readonly view: ServicesView;
  /** What the view is of. */
  readonly objects: ServiceObjects;
  /** The seats that this node may hold, and what is left out of them. */
  readonly plan: Awaited<ReturnType<typeof planSeats>>;
}

/** A pod that waits for a readiness gate of vipnat. */
export interface GateWait {
  /** `NAMESPACE/NAME`. */
  readonly pod: string;
  /** For how long it has lacked nothing else, by the date of this host. */
  readonly waitedMs: number;
  /** The living nodes that have not reported that they send connections to it. */
  readonly nodes: readonly string[];
}
