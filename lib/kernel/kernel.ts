import { readIpvs } from './host.ts';
import type { VipnatError } from '../errors.ts';
import { type Clock, systemClock } from '../clock.ts';
import {
  type Kernel,
  type Watch,
  type WritePlace,
  type KernelQuery,
  type KernelReading,
  type SeenFlow,
  type ForgottenFlow,
  type ForwardChain,
  type IptablesDialect,
  type SaveOutput,
  familyToNft,
  ownTable,
  nameOwnTable,
} from './port.ts';
import {
  createToolFinder,
  ReadyTools,
  type RunTool,
  type FindTool,
  type ToolCommand,
  isInPath,
  toolMissing,
} from './tools.ts';
import { createRuleReader, FewChains, type RuleReader } from './few-chains.ts';
import {
  createForwardLister,
  createRuleMemory,
  runNft,
  nftScript,
  type MissingFeatures,
  OwnTransactions,
  listNftTable,
  listNftObject,
  isNftName,
  toTyped,
  checkScript,
  listMissingFeatures,
} from './nftables.ts';
import {
  KnownForwarding,
  writeForwarding,
  readForwarding,
  listClosedDevices,
  readLocalRoutes,
  addSourceRoute,
  removeSourceRoute,
  listAdvertised,
} from './forwarding.ts';
import {
  isForIptables,
  restoreIptables,
  findRestore,
  type IptablesTransaction,
  hasIptables,
  tryQuickly,
  saveIptables,
} from './iptables.ts';
import {
  deleteFlows,
  countFlows,
  abortOwnConnections,
  type ConnectionChoice,
  forgetFlows,
} from './conntrack.ts';
import { startWatch, type PollOptions, startPoll } from './watch.ts';
import { readAddresses } from './addresses.ts';
import type { Family } from '../net.ts';
import {
  type ElementChange,
  listChains,
  renderElementChanges,
  NFNL_SUBSYS_NFTABLES,
  readElements,
} from './nft-netlink.ts';
import {
  createNetlinkClient,
  withNetlinkClient,
  type NetlinkClient,
  readTableHandles,
  readGeneration,
  nfgenmsgBytes,
  visitList,
  parseAttributes,
  familyToNumber,
} from './netlink.ts';

/** After how many milliseconds a tool that reads is killed, unless something else is said (100,000 rules: 4 s). */
export const usualReadLimitMs = 10_000;

interface KernelOptions {
  /** Called when a watch loses a part of its sources: once, until they work again. */
  readonly onProblem: (problem: VipnatError) => void;
  /** When polls look; the machine's clock by default. */
  readonly clock?: Clock;
  /** After how many milliseconds a tool that reads is killed; `usualReadLimitMs` by default. */
  readonly readLimitMs?: number;
  /** The same for one that writes; 15 s by default, as it may wait 5 s for the xtables lock. */
  readonly writeLimitMs?: number;
}

/** The kernel of this network namespace, through the tools in PATH. Nothing runs before the first call. */
export function createKernel(options: KernelOptions): Kernel {
  const { onProblem, clock = systemClock, readLimitMs = usualReadLimitMs, writeLimitMs = 15_000 } = options;
  const findTool = createToolFinder(readLimitMs);
  const readRules = createRuleReader(findTool, readLimitMs);
  const known = new KnownForwarding();
  const ready = new ReadyTools(clock);
  const run: RunTool = (call) => ready.run(call);
  return {
    read: (query) => readKernel(readRules, query),
    apply: (transaction) =>
      isForIptables(transaction)
        ? restoreIptables(findTool, transaction, { limitMs: writeLimitMs, run })
        : runNft(transaction.input, writeLimitMs, { run }),
    keepReady: (places) => ready.keep(Promise.all(places.map((place) => findWriter(findTool, place)))),
    resetFlows: deleteFlows,
    countFlows,
    listForwardChains: createForwardLister(readLimitMs),
    enableForwarding: async (family, device) => {
      await writeForwarding(family, device);
      known.noteOn(family);
    },
    readLocalRoutes,
    addSourceRoute,
    removeSourceRoute,
    abortOwnConnections,
    watch: (onTrigger) => startWatch({ clock, onTrigger, onProblem }, known),
  };
}

async function findWriter(findTool: FindTool, { family, dialect }: WritePlace): Promise<ToolCommand | null> {
  return dialect === 'nftables' ? nftScript : await findRestore(findTool, { family, dialect });
}

async function readKernel(readRules: RuleReader, query: KernelQuery): Promise<KernelReading> {
  const reading = readRules(query);
  const addresses = readAddresses();
  const ipvs = readIpvs();
  const forwarding = readForwarding();
  const advertised = forwarding.then(({ ipv6 }) => (ipv6 === false ? listAdvertised() : []));
  const closedDevices = Promise.all([forwarding, addresses]).then(([{ ipv4 }, found]) =>
    ipv4 === true ? listClosedDevices(found) : [],
  );
  // One that fails must not leave the other tools' children running when this rejects.
  await Promise.allSettled([reading, addresses, ipvs, advertised, closedDevices]);
  return {
    ...(await reading),
    addresses: await addresses,
    ipvs: await ipvs,
    forwarding: await forwarding,
    closedDevices: await closedDevices,
    advertised: await advertised,
  };
}

/**
 * What the balancer has of the kernel. Tables are named with their family, `ip vipnat-lb`. Every method may reject with a
 * VipnatError, after a bounded time.
 */
export interface BalancerKernel {
  /** What `nft -n list table` prints of a table, without the elements of sets that rules fill; empty where there is none. */
  listTable(table: string): Promise<string>;
  /** What `nft -n -t list table` prints of the table of `vipnat run`; empty where there is none. No tool is started while its rules stay as they are. */
  listOwnTable(family: Family): Promise<string>;
  /** The handles of the tables of a name: another one is another table. Null where a family has none. */
  readHandles(name: string): Promise<Readonly<Record<Family, number | null>>>;
  /**
   * About how many rules others have in nftables, iptables-nft's included: all but those in the tables of a name. A rule that leads to a
   * chain counts twice. What it costs grows with the chains.
   */
  countRules(exceptTable: string): Promise<number>;
  /** Hands one script to nft: all of it takes effect, or nothing. */
  apply(script: string): Promise<void>;
  /** Why nft or the kernel would refuse a script: a sentence; null where they would take it. Nothing takes effect. */
  check(script: string): Promise<string | null>;
  /** What rules may need, and this kernel or its nft does not have. */
  listMissingFeatures(): Promise<MissingFeatures>;
  /**
   * The maps and sets that packets fill, of the tables of a name: each as its family and its name, `ipv4 clients/default/web/tcp/80/60`, to how
   * many elements it has. Null where the kernel does not tell.
   */
  listMemories(name: string): Promise<ReadonlyMap<string, number | null>>;
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
  /** nftables' chains for packets that this host forwards, iptables-nft's included. No tool is started while these stay as they are. */
  listForwardChains(): Promise<readonly ForwardChain[]>;
  /**
   * At least these chains of table filter of one iptables: null where it is not installed, empty text where it has none. While these chains
   * of iptables-nft stay as they are, no tool is started, whatever others write.
   */
  readFilter(family: Family, dialect: IptablesDialect, chains: readonly string[]): Promise<SaveOutput | null>;
  /** Hands one script to one iptables: all of it takes effect, or nothing. */
  restore(transaction: IptablesTransaction): Promise<void>;
  /** Calls back after foreign transactions; this kernel's own `restore` counts as one. */
  watchGeneration(options: Omit<PollOptions<number>, 'sample' | 'everyMs'>): Watch;
}

/** A table of 1,000 Services with 100 endpoints each takes a second to write or list. */
const limitMs = 15_000;

/** A foreign change is seen so soon. */
const generationPollMs = 500;

/** The kernel of this network namespace, for the tables of the balancer. */
export function createBalancerKernel(): BalancerKernel {
  const findTool = createToolFinder(limitMs);
  const fewChains = { ipv4: new FewChains(findTool), ipv6: new FewChains(findTool) };
  const recall = createRuleMemory<string>();
  const own = new OwnTransactions();
  // Kept open: the end of a socket waits until the kernel has cleared away what the last transaction removed, 10 ms.
  const [elements, connections] = [createNetlinkClient('netfilter'), createNetlinkClient('netfilter')];
  const apply = async (input: string) => {
    await own.run(async () => {
      await runNft(input, limitMs);
      return true;
    });
  };
  return {
    listTable: async (table) => {
      if (!isInPath('nft')) throw toolMissing('nft');
      return await listConfiguration(table);
    },
    listOwnTable: (family) =>
      recall({ family: familyToNft[family], table: ownTable }, () =>
        listNftTable(nameOwnTable(family), ['-t'], limitMs),
      ),
    readHandles: (name) => withNetlinkClient('netfilter', (client) => readTableHandles(client, name)),
    countRules: async (name) => {
      const chains = await withNetlinkClient('netfilter', (client) => listChains(client));
      return chains.reduce((sum, { table, use }) => (table === name ? sum : sum + use), 0);
    },
    apply,
    check: (script) => checkScript(script, limitMs),
    listMissingFeatures: () => listMissingFeatures(apply, limitMs),
    listMemories: (name) => withNetlinkClient('netfilter', (client) => listMemories(client, name)),
    changeElements: (changes) => own.run(() => changeElements(elements, changes)),
    forgetFlows: (choice, isChosen) => forgetFlows(connections, choice, isChosen),
    listForwardChains: createForwardLister(limitMs),
    readFilter: async (family, dialect, names) => {
      if (!hasIptables(family)) return null;
      const source = { family, limitMs };
      const selection = { tables: ['filter'], names, prefixes: [], referred: [] } as const;
      const few = dialect === 'nft' ? () => fewChains[family].read({ ...source, selection }) : undefined;
      return (
        (await tryQuickly(few)) ?? (await saveIptables(findTool, { ...source, dialect, table: 'filter' }))
      );
    },
    restore: (transaction) => restoreIptables(findTool, transaction, { limitMs }),
    watchGeneration: (options) => watchForeign(own, options),
  };
}

/** nft reads so many within 100 ms. */
const fewRemembered = 10_000;

/**
 * What `nft -n list table` prints of a table, without the elements of sets that rules fill; empty where there is none. nft 1.0.6 reads these for
 * `-t list table`, too: that takes seconds where they are many. It reads the whole ruleset instead, which does not end where there are many rules,
 * and others commit all the time. Other elements are read without nft, where their types are known.
 */
async function listConfiguration(table: string): Promise<string> {
  const [layer = '', name = ''] = table.split(' ');
  const family: Family = layer === familyToNft.ipv6 ? 'ipv6' : 'ipv4';
  const remembered = await withNetlinkClient('netfilter', (client) => listMemories(client, name));
  const areFew = [...remembered.values()].every((count) => count !== null && count < fewRemembered);
  const list = (object: readonly string[], ms: number) => listNftObject(object, ['-t'], ms);
  const listAlone = () => list(['table', layer, name], limitMs);
  const text = areFew ? await listAlone() : await list(['ruleset', layer], limitMs / 3).catch(listAlone);
  const [own = ''] = new RegExp(`^table ${table} \\{$[^]*?^\\}\n`, 'm').exec(text) ?? [];
  const parts: string[] = [];
  await withNetlinkClient('netfilter', async (client) => {
    for (const part of own.split(/^(?=\t(?:set|map|chain) )/m)) {
      const [, kind, set = '', body = ''] = /^\t(set|map) (\S+) \{\n([^}]*)\t\}/.exec(part) ?? [];
      const declaration = toTyped(body.trim().replaceAll(/\n\s*/g, '; '));
      const isFixed = kind !== undefined && !declaration.includes('timeout ') && isNftName(set);
      const place = { family, table: name, set, declaration };
      parts.push(isFixed ? await fillSet(part, await readElements(client, place), [kind, table, set]) : part);
    }
  });
  return parts.join('');
}

/** The text of a set with its elements; where these are null, nft tells them. */
async function fillSet(
  text: string,
  elements: readonly string[] | null,
  object: readonly string[],
): Promise<string> {
  const [, list = ''] =
    elements === null
      ? (/^\t\telements = \{([^}]*)\}/m.exec(await listNftObject(object, [], limitMs)) ?? [])
      : [null, elements.join(', ')];
  return list === '' ? text : text.replace(/\t\}/, () => `\t\telements = { ${list} }\n\t}`);
}

/** The kernel refuses to list the sets of a table that is not there: these are of all. */
async function listMemories(client: NetlinkClient, name: string): Promise<Map<string, number | null>> {
  const payload = Buffer.alloc(nfgenmsgBytes);
  const list = { question: NFT_MSG_GETSET, payload, leastBytes: nfgenmsgBytes, subject: 'sets' };
  const found = new Map<string, number | null>();
  await visitList(client, list, (datagram, start, end) => {
    const parts = parseAttributes(datagram.subarray(start, end), nfgenmsgBytes);
    const family = datagram.readUInt8(start) === familyToNumber.ipv6 ? 'ipv6' : 'ipv4';
    const isFilled = ((parts.get(NFTA_SET_FLAGS)?.readUInt32BE() ?? 0) & NFT_SET_EVAL) !== 0;
    const [table, set] = [NFTA_SET_TABLE, NFTA_SET_NAME].map((type) =>
      parts.get(type)?.toString().slice(0, -1),
    );
    const count = parts.get(NFTA_SET_COUNT)?.readUInt32BE() ?? null;
    if (isFilled && table === name) found.set(`${family} ${set}`, count);
  });
  return found;
}

// linux/netfilter/nf_tables.h
const NFT_MSG_GETSET = (NFNL_SUBSYS_NFTABLES << 8) | 10;
const [NFTA_SET_TABLE, NFTA_SET_NAME, NFTA_SET_FLAGS, NFTA_SET_COUNT] = [1, 2, 3, 20];
const NFT_SET_EVAL = 0x20;

async function changeElements(client: NetlinkClient, changes: readonly ElementChange[]): Promise<boolean> {
  const orders = renderElementChanges(changes);
  if (orders === null) return false;
  const transaction = { subsystem: NFNL_SUBSYS_NFTABLES, orders, subject: 'elements of nftables' };
  return await client.commit(transaction).then(
    () => true,
    () => false,
  );
}

function watchForeign(
  own: OwnTransactions,
  options: Parameters<BalancerKernel['watchGeneration']>[0],
): Watch {
  const client = createNetlinkClient('netfilter');
  const poll = startPoll({
    ...options,
    sample: () => own.countForeign(() => readGeneration(client)),
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
