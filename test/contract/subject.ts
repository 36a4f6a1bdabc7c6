import type { Kernel, IptablesDialect, FlowSelection } from '../../lib/kernel/port.ts';
import type { Family, Endpoint } from '../../lib/net.ts';

/** How a tool fails. */
export type ToolFault = 'missing' | 'hanging' | 'garbage';

/** A kernel under test, with the hands of a stranger on it: a new and empty one each time. */
export interface KernelSubject {
  readonly kernel: Kernel;
  /** Another program runs a restore script of its own with --noflush. Rejects when the tool fails. */
  run(family: Family, dialect: IptablesDialect, script: string): Promise<void>;
  /** Another program runs a script of nft. Rejects when nft refuses it. */
  runNft(script: string): Promise<void>;
  /** The xtables lock is a file that is mounted by itself, as into a container. */
  mountLock(): Promise<void>;
  /** Somebody gives the interface lo an address. */
  addAddress(address: string): Promise<void>;
  removeAddress(address: string): Promise<void>;
  /** A program of this host connects to a VIP that is on it, and stays connected. */
  connect(vip: Endpoint): Promise<void>;
  /** kube-proxy programs its nftables table; the name is that of a capture's state. */
  programNftProxy(state: string): Promise<void>;
  /** The kernel keeps track of one more connection like this; `number` tells it from others. */
  trackFlow(flow: FlowSelection, number: number): Promise<void>;
  disableForwarding(family: Family): Promise<void>;
  enableForwarding(family: Family): Promise<void>;
  breakTool(tool: string, fault: ToolFault): Promise<void>;
  /** Somebody adds a rule to this table of iptables-nft that iptables-nft cannot show, by nft itself. */
  addStrangeRule(family: Family, table: 'nat' | 'filter' | 'mangle'): Promise<void>;
  /** The save tool lacks the match of a rule that is in this table from now on, as after a downgrade. */
  loseMatch(family: Family, dialect: IptablesDialect, table: 'nat' | 'filter' | 'mangle'): Promise<void>;
  /** How many processes the kernel has running. */
  countChildren(): Promise<number>;
  dispose(): Promise<void>;
}

/** What a broken tool prints. */
export const garbage = 'nobody expects this\n';
