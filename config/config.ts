import { type Family } from '../lib/address/address.ts';
import { type Endpoint } from '../lib/address/endpoint.ts';
import { type IptablesDialect } from '../lib/kernel/port.ts';
import { type LogLevel, type LogFormat } from '../lib/telemetry/log-level.ts';

/** `--mode` and its choices, the default first. `auto` chooses by what kube-proxy is seen to do. */
export const modes = ['auto', 'service-chain', 'cluster-ip', 'direct'] as const;

/** `--method` and its choices, the default first: who gets a new connection; `lc` prefers who has fewer open ones. */
export const methods = ['random', 'lc'] as const;

/** `--proxy-mode` and its choices, the default first: what kube-proxy runs; `auto` finds out, `none` is no kube-proxy. */
export const proxyModes = ['auto', 'iptables', 'ipvs', 'nftables', 'none'] as const;

/** `--iptables` and its choices, the default first. `auto` takes what the host uses, `none` is a table of our own in nftables. */
export const iptablesChoices = ['auto', 'legacy', 'nft', 'none'] as const satisfies readonly (
  'auto' | 'none' | IptablesDialect
)[];

/** `--masquerade` and its choices, the default first. */
export const masquerades = ['own', 'kube-mark', 'none'] as const;

/** `--sysctls` and its choices, the default first: whether forwarding is switched on, or only asked for. */
export const sysctlChoices = ['set', 'check'] as const;

/** `--local-clients` and its choices, the default first: whether this host's own connections to a VIP outlive its move. */
export const localClientChoices = ['keep', 'leave'] as const;

/** `--listen`'s default: this host only, on a port beside those of kubelet (10248, 10250) and kube-proxy (10249, 10256). */
export const defaultListen: Endpoint = { family: 'ipv4', address: '127.0.0.1', port: 10_268 };

/** One of modes. */
export type Mode = (typeof modes)[number];

/** One of proxyModes. */
export type ProxyMode = (typeof proxyModes)[number];

/** One of masquerades. */
export type Masquerade = (typeof masquerades)[number];

/** The whole configuration, checked, with defaults filled in: what flags, VIPNAT_* and the file come to. */
export interface Config {
  /** The virtual IPs in the order given, each once, unicast addresses only. Empty only for cleanup. */
  readonly vips: readonly Endpoint[];
  readonly mode: Mode;
  readonly method: (typeof methods)[number];
  readonly proxyMode: ProxyMode;
  readonly iptables: (typeof iptablesChoices)[number];
  /** The ClusterIP of default/kubernetes where the user gave it, in canonical text, for families that have a VIP. */
  readonly clusterIps: Readonly<Partial<Record<Family, string>>>;
  /** apiservers the user gave, sorted, each once, never a VIP, and only of families that have a VIP. */
  readonly endpoints: readonly Endpoint[];
  readonly masquerade: Masquerade;
  readonly sysctls: (typeof sysctlChoices)[number];
  readonly localClients: (typeof localClientChoices)[number];
  /** From one TCP connect to an apiserver to the next, in milliseconds: 20 to 10,000. */
  readonly probeIntervalMs: number;
  /** How long such a connect may take, in milliseconds: 20 to 10,000. */
  readonly probeTimeoutMs: number;
  /** A readable file with the CA of apiservers' certificates; null looks in the usual places. */
  readonly caFile: string | null;
  /** A readable file with the credentials for the Kubernetes API; null takes the pod's service account, if there is one. */
  readonly kubeconfig: string | null;
  /** The name of this host's Node; null for the host's own, as the kubelet has it. */
  readonly nodeName: string | null;
  /** An absolute path; the folder may not be there yet. */
  readonly stateDir: string;
  /** The same. */
  readonly runDir: string;
  /** Where the agent serves HTTP; the address may be the unspecified one, or none of this host's. Null for nowhere. */
  readonly listen: Endpoint | null;
  readonly logLevel: LogLevel;
  readonly logFormat: LogFormat;
}
