import { type Family } from '../../address/address.ts';
import { type ConnectionChoice } from '../netlink/connections.ts';
import { createNetlinkClient, type NetlinkClient, withNetlinkClient } from '../netlink/netlink.ts';
import { type ElementChange, NFNL_SUBSYS_NFTABLES, renderElementChanges } from '../netlink/nft-elements.ts';
import { familyToNft } from '../netlink/nft-chains.ts';
import { countRules } from '../netlink/nft-rule-count.ts';
import { readTableHandles } from '../netlink/nft-tables.ts';
import { nameOwnTable, ownTable } from '../netlink/own-table.ts';
import { toolMissing } from '../tools/tool-errors.ts';
import { createToolbox, isInPath } from '../tools/toolbox.ts';
import { readGeneration } from '../watch/generation.ts';
import { type PollOptions, startPoll } from '../watch/poll.ts';
import { type Source } from '../watch/source.ts';
import {
  type ForgottenFlow,
  type ForwardChain,
  type IptablesDialect,
  type SaveOutput,
  type SeenFlow,
} from '../port.ts';
import { forgetFlows } from './conntrack.ts';
import { FewChains } from './few-chains.ts';
import { hasIptables, type IptablesTransaction, restoreIptables, saveIptables } from './iptables.ts';
import { tryQuickly } from './iptables-tables.ts';
import { ForwardChains } from './nft-chains.ts';
import { OwnTransactions } from './own-transactions.ts';
import {
  checkScript,
  createFeatureTools,
  listMissingFeatures,
  type MissingFeatures,
} from './nft-features.ts';
import { listNftTable, runNft } from './nft-table.ts';
import { RuleMemory } from './rule-memory.ts';

/**
 * What the balancer has of the kernel. Tables are named with their family, `ip vipnat-lb`. Every method may reject with a
 * VipnatError, after a bounded time.
 */
export interface BalancerKernel {
  /** What `nft -n list table` prints of a table; empty where there is none. */
  listTable(table: string): Promise<string>;
  /** What `nft -n list table` prints of the table of `vipnat run`; empty where there is none. No tool is started while its rules stay as they are. */
  listOwnTable(family: Family): Promise<string>;
  /** The handles of the tables of a name: another one is another table. Null where a family has none. */
  readHandles(name: string): Promise<Readonly<Record<Family, number | null>>>;
  /** About how many rules others have in nftables, iptables-nft's included: all but those in the tables of a name. */
  countRules(exceptTable: string): Promise<number>;
  /** Hands one script to nft: all of it takes effect, or nothing. */
  apply(script: string): Promise<void>;
  /** Why nft or the kernel would refuse a script: a sentence; null where they would take it. Nothing takes effect. */
  check(script: string): Promise<string | null>;
  /** What rules may need, and this kernel or its nft does not have. */
  listMissingFeatures(): Promise<MissingFeatures>;
  /**
   * Changes elements of sets and maps without nft, and answers whether that is done: all of it or nothing. False for what only nft
   * can encode, and where the kernel refuses or does not answer: `apply` is to be tried then, and has more to say. Never rejects. One at a time.
   */
  changeElements(changes: readonly ElementChange[]): Promise<boolean>;
  /**
   * Makes connections forget where they were sent, whoever sent them there: of those that asked for another address, or of all. Those that go
   * where they asked have that place as their backend. Answers how many
   * there were of each flow. `isChosen` is asked of each that the kernel has, while it lists them. The time grows with all connections, and the
   * memory with those that are chosen. One at a time.
   */
  forgetFlows(
    choice: ConnectionChoice,
    isChosen: (flow: SeenFlow) => boolean,
  ): Promise<readonly ForgottenFlow[]>;
  /** nftables' chains for packets on their way through this host, iptables-nft's included. No tool is started while these stay as they are. */
  listForwardChains(): Promise<readonly ForwardChain[]>;
  /**
   * At least these chains of table filter of one iptables: null where it is not installed, empty text where it has none. While these chains
   * of iptables-nft stay as they are, no tool is started, whatever others write.
   */
  readFilter(family: Family, dialect: IptablesDialect, chains: readonly string[]): Promise<SaveOutput | null>;
  /** Hands one script to one iptables: all of it takes effect, or nothing. */
  restore(transaction: IptablesTransaction): Promise<void>;
  /** Calls back after transactions of others; this kernel's own `restore` counts as theirs. */
  watchGeneration(options: Omit<PollOptions<number>, 'look' | 'everyMs'>): Source;
}

/** A table of 1,000 Services with 100 endpoints each takes a second to write or list. */
const limitMs = 15_000;

/** A foreign change is seen so soon. */
const generationPollMs = 500;

/** The kernel of this network namespace, for the tables of the balancer. */
export function createBalancerKernel(): BalancerKernel {
  const toolbox = createToolbox(limitMs);
  const fewChains = { ipv4: new FewChains(toolbox), ipv6: new FewChains(toolbox) };
  const ownTables = new RuleMemory<string>();
  const forwardChains = new ForwardChains(limitMs);
  const own = new OwnTransactions();
  // Kept open: the end of a socket waits until the kernel has cleared away what the last transaction removed, 10 ms.
  const [elements, connections] = [createNetlinkClient('netfilter'), createNetlinkClient('netfilter')];
  const apply = (input: string) => applyAsOwn(own, input);
  return {
    listTable: async (table) => {
      if (!isInPath('nft')) throw toolMissing('nft');
      return await listNftTable(table, [], limitMs);
    },
    listOwnTable: (family) =>
      ownTables.recall({ family: familyToNft[family], table: ownTable }, () =>
        listNftTable(nameOwnTable(family), [], limitMs),
      ),
    readHandles: (name) => withNetlinkClient('netfilter', (client) => readTableHandles(client, name)),
    countRules: (name) => withNetlinkClient('netfilter', (client) => countRules(client, name)),
    apply,
    check: (script) => checkScript(script, limitMs),
    listMissingFeatures: () => listMissingFeatures(createFeatureTools(apply, limitMs)),
    changeElements: (changes) => own.run(() => changeElements(elements, changes)),
    forgetFlows: (choice, isChosen) => forgetFlows(connections, choice, isChosen),
    listForwardChains: () => forwardChains.list(),
    readFilter: async (family, dialect, names) => {
      if (!hasIptables(family)) return null;
      const source = { family, limitMs };
      const selection = { tables: ['filter'], names, prefixes: [], referred: [] } as const;
      const few = dialect === 'nft' ? () => fewChains[family].read({ ...source, selection }) : undefined;
      return (
        (await tryQuickly(few)) ?? (await saveIptables(toolbox, { ...source, dialect, table: 'filter' }))
      );
    },
    restore: (transaction) => restoreIptables(toolbox, transaction, { limitMs }),
    watchGeneration: (options) => watchForeign(own, options),
  };
}

async function applyAsOwn(own: OwnTransactions, input: string): Promise<void> {
  await own.run(async () => {
    await runNft({ family: 'ipv4', dialect: 'nftables', input }, limitMs);
    return true;
  });
}

async function changeElements(client: NetlinkClient, changes: readonly ElementChange[]): Promise<boolean> {
  const orders = renderElementChanges(changes);
  if (orders === null) return false;
  const transaction = { subsystem: NFNL_SUBSYS_NFTABLES, orders, subject: 'elements of nftables' };
  try {
    await client.commit(transaction);
    return true;
  } catch {
    return false;
  }
}

function watchForeign(
  own: OwnTransactions,
  options: Parameters<BalancerKernel['watchGeneration']>[0],
): Source {
  const client = createNetlinkClient('netfilter');
  const poll = startPoll({
    ...options,
    look: () => own.countForeign(() => readGeneration(client)),
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
