import { type Family, families } from '../../address/address.ts';
import { createNetlinkClient, withNetlinkClient } from '../netlink/netlink.ts';
import { countRules } from '../netlink/nft-rule-count.ts';
import { readTableHandles } from '../netlink/nft-tables.ts';
import { settleAll } from '../tools/settle.ts';
import { toolMissing } from '../tools/tool-errors.ts';
import { createToolbox, isInPath } from '../tools/toolbox.ts';
import { readGeneration } from '../watch/generation.ts';
import { type PollOptions, startPoll } from '../watch/poll.ts';
import { type Source } from '../watch/source.ts';
import { type BalancedFlow, type ForwardChain, type IptablesDialect, type SaveOutput } from '../port.ts';
import { deleteFlows, listTranslatedFlows } from './conntrack.ts';
import { hasIptables, type IptablesTransaction, restoreIptables, saveIptables } from './iptables.ts';
import { listForwardChains } from './nft-chains.ts';
import { listNftTable, runNft } from './nft-table.ts';

/**
 * What the balancer has of the kernel. Tables are named with their family, `ip vipnat-lb`. Every method may reject with a
 * VipnatError, after a bounded time.
 */
export interface BalancerKernel {
  /** What `nft -n list table` prints of a table; empty where there is none. */
  listTable(table: string): Promise<string>;
  /** The handles of the tables of a name: another one is another table. Null where a family has none. */
  readHandles(name: string): Promise<Readonly<Record<Family, number | null>>>;
  /** About how many rules others have in nftables, iptables-nft's included: all but those in the tables of a name. */
  countRules(exceptTable: string): Promise<number>;
  /** Hands one script to nft: all of it takes effect, or nothing. */
  apply(script: string): Promise<void>;
  /** Makes connections forget the endpoint that they were sent to; answers how many there were. */
  deleteFlows(flow: BalancedFlow): Promise<number>;
  /** Where connections were sent that asked for another address, whoever sent them there: each pair once. */
  listFlows(): Promise<readonly BalancedFlow[]>;
  /** nftables' chains for packets on their way through this host, iptables-nft's included. */
  listForwardChains(): Promise<readonly ForwardChain[]>;
  /** Table filter of one iptables: null where it is not installed, empty text where it has none. */
  readFilter(family: Family, dialect: IptablesDialect): Promise<SaveOutput | null>;
  /** Hands one script to one iptables: all of it takes effect, or nothing. */
  restore(transaction: IptablesTransaction): Promise<void>;
  /** Calls back after transactions of anybody, this process's included. */
  watchGeneration(options: Omit<PollOptions<number>, 'look' | 'everyMs'>): Source;
}

/** A table of 1,000 Services with 100 endpoints each takes a second to write or list. */
const limitMs = 15_000;

/** A foreign change is seen so soon. Each own change is seen, too, and costs a short look. */
const generationPollMs = 500;

/** The kernel of this network namespace, for the tables of the balancer. */
export function createBalancerKernel(): BalancerKernel {
  const toolbox = createToolbox(limitMs);
  return {
    listTable: async (table) => {
      if (!isInPath('nft')) throw toolMissing('nft');
      return await listNftTable(table, [], limitMs);
    },
    readHandles: (name) => withNetlinkClient('netfilter', (client) => readTableHandles(client, name)),
    countRules: (name) => withNetlinkClient('netfilter', (client) => countRules(client, name)),
    apply: (input) => runNft({ family: 'ipv4', dialect: 'nftables', input }, limitMs),
    listFlows: async () =>
      (await settleAll(families.map((family) => listTranslatedFlows(family, limitMs)))).flat(),
    deleteFlows: (flow) => deleteFlows({ ...flow, isHalfOpen: false }, limitMs),
    listForwardChains: () => listForwardChains(limitMs),
    readFilter: async (family, dialect) => {
      if (!hasIptables(family)) return null;
      return await saveIptables(toolbox, { family, dialect, limitMs, table: 'filter' });
    },
    restore: (transaction) => restoreIptables(toolbox, transaction, limitMs),
    watchGeneration,
  };
}

function watchGeneration(options: Parameters<BalancerKernel['watchGeneration']>[0]): Source {
  const client = createNetlinkClient('netfilter');
  const poll = startPoll({
    ...options,
    look: () => readGeneration(client),
    everyMs: () => generationPollMs,
  });
  return {
    ready: poll.ready,
    async stop() {
      await poll.stop();
      client.close();
    },
  };
}
