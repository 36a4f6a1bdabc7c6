import type { Family, Endpoint } from '../net.ts';
import { VipnatError, type ErrorCode } from '../errors.ts';

/** The name of vipnat's nftables table, in each family that has one. Whatever it holds is vipnat's: nobody else writes there. */
export const ownTable = 'vipnat';

/** `ip vipnat` or `ip6 vipnat`. */
export function nameOwnTable(family: Family): string {
  return `${familyToNft[family]} ${ownTable}`;
}

/** What came of a reading that may fail. */
export interface Attempt<T> {
  /** Null where it failed. */
  readonly found: T | null;
  readonly unread: readonly UnreadRules[];
}

/** Which rules a reading is to tell. */
type RulesToRead = Pick<UnreadRules, 'family' | 'dialect' | 'tables'>;

/** Awaits a reading of rules. A VipnatError is reported as what could not be read; anything else is a bug, and rejects. */
export async function attempt<T>(reading: Promise<T>, rules: RulesToRead): Promise<Attempt<T>> {
  try {
    return { found: await reading, unread: [] };
  } catch (error) {
    return { found: null, unread: [toUnread(rules, error)] };
  }
}

/** The rules that an error keeps from being read. Throws what is no VipnatError. */
export function toUnread({ family, dialect, tables }: RulesToRead, error: unknown): UnreadRules {
  if (!(error instanceof VipnatError)) throw error;
  const { code, message, details } = error;
  return { family, dialect, tables, code, message, ...(details === undefined ? {} : { details }) };
}

/** Which rules are unread, as one text that is the same while they are. Pure. */
export function nameUnread(unread: readonly UnreadRules[]): string {
  return unread.map((one) => `${namePlace(one)} ${one.code}`).join();
}

/** What could not be read for one reason, for people: which rules, why, and what that means. */
export interface UnreadText {
  readonly code: ErrorCode;
  readonly text: string;
}

/** One text for each reason. Pure. */
export function describeUnread(unread: readonly UnreadRules[]): UnreadText[] {
  const codes = [...new Set(unread.map(({ code }) => code))];
  return codes.map((code) => {
    const parts = unread.filter((one) => one.code === code);
    const places = [...new Set(parts.map(namePlace))].join(', ');
    return {
      code,
      text: `vipnat cannot read ${places} (${parts[0]?.message ?? ''}). ${describeConsequence(parts)}`,
    };
  });
}

function namePlace({ family, dialect, tables }: UnreadRules): string {
  if (dialect === 'nftables') return `nft table ${familyToNft[family]} ${tables.join()}`;
  const tool = toolName(family, dialect);
  return tables.length === iptablesTables.length ? tool : `${tables.join(' and ')} of ${tool}`;
}

function describeConsequence(parts: readonly UnreadRules[]): string {
  if (parts[0]?.code === 'NF_TABLES_MISSING') return 'This kernel has no nf_tables, so no such rules exist';
  const tables = new Set(parts.flatMap((part) => part.tables));
  const hasAny = (...some: readonly ReadTable[]) => some.some((table) => tables.has(table));
  const rules = [
    ...(hasAny('nat', 'filter', 'vipnat') ? ["vipnat's earlier rules"] : []),
    ...(hasAny('nat', 'kube-proxy') ? ["kube-proxy's rules"] : []),
    ...(hasAny('filter') ? ['a FORWARD chain that drops packets'] : []),
    ...(hasAny('mangle') && !hasAny('nat') ? ["kubelet's hint at the iptables variant in use"] : []),
  ];
  return `vipnat does not see there: ${rules.join(', ')}`;
}

/** The name of a backend's tool: `toolName('ipv6', 'legacy', 'restore')` is `ip6tables-legacy-restore`; that of nftables is nft. */
export function toolName(family: Family, dialect: Dialect, suffix?: 'save' | 'restore'): string {
  if (dialect === 'nftables') return 'nft';
  const base = `${family === 'ipv6' ? 'ip6tables' : 'iptables'}-${dialect}`;
  return suffix === undefined ? base : `${base}-${suffix}`;
}

/** The two implementations of iptables: the nf_tables one and the old xtables one. Both can hold rules at the same time. */
export type IptablesDialect = 'nft' | 'legacy';

/** What rules can be written to: one of iptables' dialects, or nftables itself, as a table of vipnat's. */
export type Dialect = IptablesDialect | 'nftables';

/** Both dialects of iptables. The first is preferred where nothing decides. */
export const iptablesDialects: readonly IptablesDialect[] = ['nft', 'legacy'];

/**
 * The kernel's packet-filter and address state, as the tools show it: what an observation is made of and what
 * a plan is written with. The real one is `createKernel` (kernel.ts); test/support/fakes has one that behaves like it.
 * Every method may reject with a VipnatError, after a bounded time; none leaves a child process behind.
 */
export interface Kernel {
  /** Reads everything the query names. Rules that cannot be read are in `unread`; without anything else it rejects. */
  read(query: KernelQuery): Promise<KernelReading>;
  /** Hands one script to one tool. Rejects with TOOL_FAILED when the tool refuses it: nothing, or at most the tables before the failing one, was then written. */
  apply(transaction: Transaction): Promise<void>;
  /**
   * Has what writes to these places, and to no others, ready for its next write, which is then made within a few milliseconds. That is used
   * up by one write. Nowhere by default: then no process of it is left. Never rejects.
   */
  keepReady(places: readonly WritePlace[]): Promise<void>;
  /**
   * Makes connections to a VIP forget the backend that they were sent to; answers how many there were. Rejects with
   * TOOL_NOT_PERMITTED or NETLINK_FAILED where that cannot be done: nothing else depends on it.
   */
  resetFlows(selection: FlowSelection): Promise<number>;
  /**
   * How many established connections to a VIP each backend has, by its text, see formatEndpoint. Rejects like
   * resetFlows.
   */
  countFlows(vip: Endpoint): Promise<ReadonlyMap<string, number>>;
  /** nftables' chains for packets that this host forwards, iptables-nft's included. */
  listForwardChains(): Promise<readonly ForwardChain[]>;
  /** Makes this host pass on packets of a family, or what comes by one interface. Rejects with SYSCTL_NOT_WRITTEN where that cannot be done. */
  enableForwarding(family: Family, device?: string): Promise<void>;
  /** How this host reaches its own IPv4 addresses. Rejects with NETLINK_FAILED: rules do not depend on it. */
  readLocalRoutes(): Promise<LocalRoutes>;
  /** Puts a vipnat route before the kernel's own; does nothing where it is already. Rejects with TOOL_NOT_PERMITTED or NETLINK_FAILED. */
  addSourceRoute(route: SourceRoute): Promise<void>;
  /** Takes it away again; does nothing where it is not. Rejects alike. */
  removeSourceRoute(route: SourceRoute): Promise<void>;
  /**
   * Ends this host's own connections to a VIP that have the VIP as their source; answers how many there were. Rejects with
   * TOOL_NOT_PERMITTED, or with NETLINK_FAILED where the kernel cannot do it.
   */
  abortOwnConnections(vip: Endpoint): Promise<number>;
  /**
   * Calls back after changes that a read could see, whoever made them, until closed. Never carries data, may call
   * back for nothing, and never calls back before it has returned.
   */
  watch(onTrigger: (trigger: Trigger) => void): Watch;
}

/** What to read. Addresses, forwarding, IPVS and the nftables proxy's part are read every time: they cost next to nothing. */
export interface KernelQuery {
  readonly families: readonly Family[];
  readonly dialects: readonly IptablesDialect[];
  /** The names of the nftables proxy's chain for the service whose backends are wanted, see lib/kube-proxy/read.ts. */
  readonly nftServiceChain: string;
  /**
   * The chains of iptables that are wanted; all when left out. Where a host has many rules, what is read of iptables-nft is these chains
   * only: whole tables take long to list, and longer while others write. The answer may have other chains, too.
   */
  readonly chains?: ChainSelection;
}

/** Which chains are wanted. */
export interface ChainSelection {
  /** In which tables; all that vipnat reads by default. */
  readonly tables?: readonly IptablesTable[];
  /** Those of these names. */
  readonly names: readonly string[];
  /** Those whose names begin so, and those that lead to them. */
  readonly prefixes: readonly string[];
  /** Those whose names begin so, where a chain of these names or prefixes leads to them. */
  readonly referred: readonly string[];
}

/** The tables of iptables that vipnat reads; it writes to nat and filter only. */
export const iptablesTables = ['nat', 'filter', 'mangle'] as const;

/** One of them. */
type IptablesTable = (typeof iptablesTables)[number];

/** A table that is read: one of iptables, or of nftables vipnat's or kube-proxy's. */
type ReadTable = IptablesTable | 'vipnat' | 'kube-proxy';

/** Rules that a read was to tell and could not. Nothing is known of them, not even whether there are any. */
export interface UnreadRules {
  readonly family: Family;
  readonly dialect: Dialect;
  /** In which tables; never empty. */
  readonly tables: readonly ReadTable[];
  /** Why, as the error has it. */
  readonly code: ErrorCode;
  readonly message: string;
  readonly details?: string;
}

/** What the tools printed, unparsed. */
export interface KernelReading {
  /** Of each family and dialect that has an iptables here; none at all where only nft is installed. */
  readonly iptables: readonly SaveOutput[];
  /** vipnat's table of each family; none where nft is missing. */
  readonly nftTables: readonly NftTableOutput[];
  /** Addresses on this network namespace's interfaces that can be used (not tentative, not failed DAD). */
  readonly addresses: readonly LocalAddress[];
  /** /proc/net/ip_vs, or null where the kernel has no IPVS. */
  readonly ipvs: string | null;
  readonly forwarding: Forwarding;
  /** The interfaces with an IPv4 address that pass on nothing although the host does; none when left out. IPv6 has no such switch. */
  readonly closedDevices?: readonly string[];
  /** The interfaces that would stop obeying router advertisements if forwarding of IPv6 were switched on, see forwarding.ts; none where it is on. */
  readonly advertised: readonly string[];
  /** The nftables proxy's objects, per family that has its table; empty where nft is missing. */
  readonly nftProxies: readonly NftProxyOutput[];
  /** What of the rules could not be read. */
  readonly unread: readonly UnreadRules[];
}

/** Whether this host forwards other hosts' packets, at least from one interface; null where the kernel lacks the family. */
export type Forwarding = Readonly<Record<Family, boolean | null>>;

/** What one `*tables-save` printed. */
export interface SaveOutput {
  readonly family: Family;
  readonly dialect: IptablesDialect;
  /** What `ip[6]tables-{nft,legacy}-save` prints, of the wanted chains at least; empty when the dialect has no table. Without what `unread` has of it. */
  readonly text: string;
  /** About how many rules are in chains that were not wanted, and that the text leaves out; none when left out. */
  readonly unlistedRules?: number;
}

/** A chain of nftables that forwarded packets pass. */
export interface ForwardChain {
  /** Its table with the family: `inet firewall`. */
  readonly table: string;
  readonly name: string;
  /** Whether its policy or its last rule drops what no rule decides about, and none of them lets pass whatever was translated. */
  readonly isDropping: boolean;
}

/** What `nft -n -t list table` printed for vipnat's table; empty when there is none. */
export interface NftTableOutput {
  readonly family: Family;
  readonly text: string;
}

/** Objects of the table `kube-proxy`: map service-ips, map no-endpoint-services, the service's chain, those it leads to, one of its sets of clients. */
export interface NftProxyOutput {
  readonly family: Family;
  /** The elements of the `nftables` array that `nft -j list …` printed, without metainfo. */
  readonly objects: readonly unknown[];
}

/** An address of this host. */
export interface LocalAddress {
  readonly family: Family;
  /** Canonical text, without prefix length. */
  readonly address: string;
  /** The interface, by name. */
  readonly device: string;
}

/** A local route that names another source than the kernel's own. */
export interface SourceRoute {
  /** An IPv4 address in canonical text. */
  readonly address: string;
  /** The interface, by name. */
  readonly device: string;
  /** The source of connections that this host itself opens to the address. */
  readonly source: string;
}

/** A route of table local to one IPv4 address. */
export interface LocalRoute extends Omit<SourceRoute, 'source'> {
  readonly source: string | null;
  /** Whether vipnat has made it: this process, or one before it. */
  readonly isOwn: boolean;
}

/** How this host reaches its own addresses, and what a source can be chosen from. */
export interface LocalRoutes {
  /** Of both families, in the kernel's order. */
  readonly addresses: readonly (LocalAddress & {
    /** How many bits of the address name its subnet. */
    readonly prefixLength: number;
    /** Whether connections to everywhere may come from it: of global scope, and not deprecated. */
    readonly isSource: boolean;
  })[];
  /** Of IPv4; of several to one address the kernel takes the first. A route can outlive its address. */
  readonly routes: readonly LocalRoute[];
  /** The IPv4 source towards everywhere else; null without a default route. */
  readonly usualSource: string | null;
}

/** Where a transaction writes. */
export type WritePlace = Pick<Transaction, 'family' | 'dialect'>;

/** One script for one tool: one `ip[6]tables-{nft,legacy}-restore --noflush`, or one `nft -f -`. */
export interface Transaction {
  readonly family: Family;
  readonly dialect: Dialect;
  /** The script, ending with a newline. */
  readonly input: string;
}

/** Connections to one VIP that were sent to one backend, both of one family. */
export interface FlowSelection {
  readonly vip: Endpoint;
  readonly backend: Endpoint;
  /** Only those that the backend has not answered yet: their clients will try again. */
  readonly isHalfOpen: boolean;
}

/** Connections to one port of a Service that were sent to one endpoint. */
export interface BalancedFlow {
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  readonly vip: Endpoint;
  readonly backend: Endpoint;
}

/** A connection as the kernel has it. */
export interface SeenFlow extends BalancedFlow {
  /** Whether it can still carry anything: of TCP not one that both sides have ended. */
  readonly isOpen: boolean;
  /** Whether a packet came back, and nobody has reset it. */
  readonly isAnswered: boolean;
  /** Whether both sides have opened it, and none has begun to end it: of TCP only. */
  readonly isEstablished: boolean;
  /** For how long no packet of it has come, if it is established: 0 up to five minutes, where the kernel does not tell, and when left out. */
  readonly idleMs?: number;
}

/** Connections that were sent to one endpoint, and are forgotten. */
export interface ForgottenFlow extends BalancedFlow {
  /** At least 1. */
  readonly count: number;
}

/** Why to look again: a hint for the log, never data to act on. `own-rules` are changes of nftables by anybody that vipnat's rules had a part in. */
export type Trigger = 'own-rules' | 'nft-generation' | 'xtables-lock' | 'addresses' | 'ipvs' | 'forwarding';

/** A running watch. */
export interface Watch {
  /**
   * Resolves once every source has its first reading, from which on changes trigger: a read that starts then
   * misses nothing. A source that cannot work does not hold it up. Never rejects.
   */
  readonly ready: Promise<void>;
  /** Ends the watch and its children. Nothing is called back afterwards. Safe to call twice. */
  stop(): Promise<void>;
}

/** The families of nftables that iptables has tables in. */
export type NftFamily = 'ip' | 'ip6';

/** The names of nftables for the families. */
export const familyToNft: Readonly<Record<Family, NftFamily>> = { ipv4: 'ip', ipv6: 'ip6' };
