import { type VipnatError } from '../../text/errors.ts';
import { readAddresses } from '../netlink/addresses.ts';
import { addSourceRoute, readLocalRoutes, removeSourceRoute } from '../netlink/local-routes.ts';
import { abortOwnConnections } from '../netlink/own-connections.ts';
import { listAdvertised } from '../host/advertised-routes.ts';
import { attempt, type Attempt } from './attempt.ts';
import { type Clock, systemClock } from '../../control/clock.ts';
import { countFlows, deleteFlows } from './conntrack.ts';
import { readForwarding, writeForwarding } from '../host/forwarding.ts';
import { hasIptables, isForIptables, restoreIptables } from './iptables.ts';
import { readIptables } from './iptables-tables.ts';
import { readIpvs } from '../watch/ipvs.ts';
import { KnownForwarding } from '../host/known-forwarding.ts';
import { listForwardChains } from './nft-chains.ts';
import { readNftProxy } from './nft-proxy.ts';
import { readNftTable, runNft } from './nft-table.ts';
import { type Kernel, type KernelQuery, type KernelReading, type UnreadRules } from '../port.ts';
import { createToolbox, type Toolbox } from '../tools/toolbox.ts';
import { startWatch } from '../watch/watch.ts';

/** What a real kernel needs to know. */
export interface KernelOptions {
  /** Told when a watch goes half blind: once, until it has seen again. */
  readonly onProblem: (problem: VipnatError) => void;
  /** When polls look; the machine's clock by default. */
  readonly clock?: Clock;
  /** After how many milliseconds a tool that reads is killed; 10 s by default (100,000 rules: 4 s). */
  readonly readLimitMs?: number;
  /** The same for one that writes; 15 s by default, as it may wait 5 s for the xtables lock. */
  readonly writeLimitMs?: number;
}

/** The kernel of this network namespace, through the tools in PATH. Nothing runs before the first call. */
export function createKernel(options: KernelOptions): Kernel {
  const { onProblem, clock = systemClock, readLimitMs = 10_000, writeLimitMs = 15_000 } = options;
  const toolbox = createToolbox(readLimitMs);
  const known = new KnownForwarding();
  return {
    read: (query) => readKernel(toolbox, query, readLimitMs),
    apply: (transaction) =>
      isForIptables(transaction)
        ? restoreIptables(toolbox, transaction, writeLimitMs)
        : runNft(transaction, writeLimitMs),
    resetFlows: (selection) => deleteFlows(selection, writeLimitMs),
    countFlows: (vip) => countFlows(vip, readLimitMs),
    listForwardChains: () => listForwardChains(readLimitMs),
    enableForwarding: async (family) => {
      await writeForwarding(family);
      known.noteOn(family);
    },
    readLocalRoutes,
    addSourceRoute,
    removeSourceRoute,
    abortOwnConnections,
    watch: (onTrigger) => startWatch({ clock, onTrigger, onProblem }, known),
  };
}

async function readKernel(toolbox: Toolbox, query: KernelQuery, limitMs: number): Promise<KernelReading> {
  const { families, dialects, nftServiceChain: serviceChain } = query;
  const saves = families
    .filter((family) => hasIptables(family))
    .flatMap((family) => dialects.map((dialect) => readIptables(toolbox, { family, dialect, limitMs })));
  const tables = families.map((family) =>
    attempt(readNftTable(family, limitMs), { family, dialect: 'nftables', tables: ['vipnat'] }),
  );
  const proxies = families.map((family) =>
    attempt(readNftProxy({ family, serviceChain, limitMs }), {
      family,
      dialect: 'nftables',
      tables: ['kube-proxy'],
    }),
  );
  const addresses = readAddresses();
  const ipvs = readIpvs();
  const forwarding = readForwarding();
  const advertised = forwarding.then(({ ipv6 }) => (ipv6 === false ? listAdvertised() : []));
  // One that fails must not leave the others' children running when we answer.
  await Promise.allSettled([...saves, ...tables, ...proxies, addresses, ipvs, advertised]);
  const [iptables, nftTables, nftProxies] = [await sum(saves), await sum(tables), await sum(proxies)];
  return {
    iptables: iptables.found,
    nftTables: nftTables.found,
    addresses: await addresses,
    ipvs: await ipvs,
    forwarding: await forwarding,
    advertised: await advertised,
    nftProxies: nftProxies.found,
    unread: [...iptables.unread, ...nftTables.unread, ...nftProxies.unread],
  };
}

interface Sum<T> {
  readonly found: readonly T[];
  readonly unread: readonly UnreadRules[];
}

async function sum<T>(attempts: readonly Promise<Attempt<T | null>>[]): Promise<Sum<T>> {
  const all = await Promise.all(attempts);
  return {
    found: all.flatMap(({ found }) => (found === null ? [] : [found])),
    unread: all.flatMap(({ unread }) => unread),
  };
}
