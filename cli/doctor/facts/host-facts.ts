import { type KeepalivedConfiguration } from '../../../lib/keepalived/find.ts';
import { type InterfaceAddress } from '../../../lib/kernel/host/interfaces.ts';
import { type Listener } from '../../../lib/kernel/host/listeners.ts';
import { type ModuleState } from '../../../lib/kernel/host/modules.ts';
import { type ForwardChain } from '../../../lib/kernel/port.ts';
import { type EarlyRules } from '../../../lib/kernel/real/early-rules.ts';
import { type HostProcess } from '../../../lib/kernel/host/processes.ts';
import { type Rights } from '../../../lib/kernel/host/rights.ts';
import { type VrrpAdvert } from '../../../lib/keepalived/advert.ts';
import { type Drain } from '../../../lib/files/drain-store.ts';
import { type Config } from '../../../config/config.ts';
import { type ProxyHealth } from './proxy-health.ts';
import { type ConnectOutcome } from '../../../lib/probe/connect.ts';
import { type Serving } from '../../../lib/probe/serving.ts';
import { type Fact } from './fact.ts';
import { type LinkHolder } from './holders.ts';
import { type ServicesFacts } from './services-facts.ts';
import { type HolderInfo } from '../../../lib/http/singleton.ts';
import type { HostLook } from '../../../agent/main.ts';

/** What is known of the file by which keepalived is told whether this node can serve. */
export interface TrackFileView {
  /** What is in it, without blanks around; null where it is not there. */
  readonly says: string | null;
  /** Whether keepalived watches its folder; null where none runs. */
  readonly isWatched: boolean | null;
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
  readonly assessment: Fact<HostLook>;
  /** nftables' chains for what is forwarded. */
  readonly forwardChains: Fact<readonly ForwardChain[]>;
  /** Rules that packets pass before connections are tracked. */
  readonly earlyRules: Fact<readonly EarlyRules[]>;
  /** /proc/net/ip_vs; null where the kernel has no IPVS. */
  readonly ipvs: Fact<string | null>;
  /** By name, those of sysctlNames and of every interface that this kernel has. */
  readonly sysctls: ReadonlyMap<string, string>;
  readonly interfaces: readonly InterfaceAddress[];
  /** But for those of seatProcesses. */
  readonly processes: Fact<readonly HostProcess[]>;
  /** Those of the keepalived that holds Services' addresses. */
  readonly seatProcesses: Fact<readonly HostProcess[]>;
  readonly listeners: Fact<readonly Listener[]>;
  /** keepalived's, wherever that has it. */
  readonly keepalived: Fact<KeepalivedConfiguration>;
  /** What keepalived is told, and whether it listens. */
  readonly trackFile: Fact<TrackFileView>;
  /** By path, of filePaths; null for a file that is not there. */
  readonly files: ReadonlyMap<string, Fact<string | null>>;
  /** Whether an agent has remembered apiservers here, in its state folder. */
  readonly hasMemory: Fact<boolean>;
  /** The drain of this host; null where it is not drained. */
  readonly drain: Fact<Drain | null>;
  readonly adverts: Fact<readonly VrrpAdvert[]>;
  /** By VIP address: how a connect to a port ended that no rule of ours is about; only VIPs that this host lacks. */
  readonly holderAnswers: ReadonlyMap<string, ConnectOutcome>;
  /** By VIP address: which other host answers for it on a link; null for nobody. Not in it: one that cannot be asked for. */
  readonly linkHolders: Fact<ReadonlyMap<string, LinkHolder | null>>;
  /** By endpoint text; null for one that did not answer. */
  readonly serving: Fact<ReadonlyMap<string, Serving | null>>;
  readonly kubeProxy: ProxyHealth;
  /** The services of unitNames that systemd has a unit for. */
  readonly units: ReadonlySet<string>;
  /** By name, those of ipvsModules. */
  readonly modules: ReadonlyMap<string, ModuleState>;
  readonly agent: HolderInfo | null;
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

/** Services that remedies start anew. */
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

/** The switch by which packets are dropped whose way back is another one. */
export function nameReversePathFilter(device: string): string {
  return `net.ipv4.conf.${device.replaceAll('.', '/')}.rp_filter`;
}

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
