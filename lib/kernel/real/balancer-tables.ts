import { type Family } from '../../address/address.ts';
import { type Endpoint } from '../../address/endpoint.ts';
import { createNetlinkClient, withNetlinkClient } from '../netlink/netlink.ts';
import { readTableHandles } from '../netlink/nft-tables.ts';
import { toolMissing } from '../tools/tool-errors.ts';
import { isInPath } from '../tools/toolbox.ts';
import { readGeneration } from '../watch/generation.ts';
import { type PollOptions, startPoll } from '../watch/poll.ts';
import { type Source } from '../watch/source.ts';
import { type ForwardChain } from '../port.ts';
import { deleteFlows } from './conntrack.ts';
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
  /** Hands one script to nft: all of it takes effect, or nothing. */
  apply(script: string): Promise<void>;
  /** Makes connections forget the endpoint that they were sent to; answers how many there were. */
  deleteFlows(flow: BalancedFlow): Promise<number>;
  /** nftables' chains for packets on their way through this host, iptables-nft's included. */
  listForwardChains(): Promise<readonly ForwardChain[]>;
  /** Calls back after transactions of anybody, this process's included. */
  watchGeneration(options: Omit<PollOptions<number>, 'look' | 'everyMs'>): Source;
}

/** Connections to one port of a Service that were sent to one endpoint. */
export interface BalancedFlow {
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  readonly vip: Endpoint;
  readonly backend: Endpoint;
}

/** A table of 1,000 Services with 100 endpoints each takes a second to write or list. */
const limitMs = 15_000;

/** A foreign change is seen so soon. Each own change is seen, too, and costs a short look. */
const generationPollMs = 500;

/** The kernel of this network namespace, for the tables of the balancer. */
export function createBalancerKernel(): BalancerKernel {
  return {
    listTable: async (table) => {
      if (!isInPath('nft')) throw toolMissing('nft');
      return await listNftTable(table, [], limitMs);
    },
    readHandles: (name) => withNetlinkClient('netfilter', (client) => readTableHandles(client, name)),
    apply: (input) => runNft({ family: 'ipv4', dialect: 'nftables', input }, limitMs),
    deleteFlows: (flow) => deleteFlows({ ...flow, isHalfOpen: false }, limitMs),
    listForwardChains: () => listForwardChains(limitMs),
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
