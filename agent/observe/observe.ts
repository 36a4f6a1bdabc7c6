import {
  type Kernel,
  familyToNft,
  type IptablesDialect,
  type Dialect,
  type UnreadRules,
  type KernelReading,
  iptablesDialects,
  type SaveOutput,
  iptablesTables,
  toUnread,
  type ChainSelection,
} from '../../lib/kernel/port.ts';
import type { Config } from '../../config/options.ts';
import { VipnatError } from '../../lib/errors.ts';
import { type Family, families, type Endpoint } from '../../lib/net.ts';
import {
  isOwnChain,
  type Ruleset,
  parseSave,
  toIncompatible,
  dispatchChain,
} from '../../lib/iptables/rules.ts';
import {
  type IptablesProxyView,
  type NftProxyView,
  readIptablesProxy,
  kubernetesService,
  readNftProxy,
  serviceChain,
} from '../../lib/kube-proxy/read.ts';
import { type ServiceServer, parseIpvs } from '../../lib/kube-proxy/ipvs.ts';
import { type NftRuleset, parseNftTable } from '../../lib/nft/table.ts';
import type { Sourced } from '../../lib/text.ts';
import {
  type FoundProxyMode,
  decideProxyMode,
  isAlive,
  isProxyMode,
  findKubernetesServer,
} from './kube-proxy.ts';
import {
  chooseIptablesDialect,
  chooseDialect,
  findUnshowable,
  dialectHints,
  type Choice,
  listNeeded,
} from './dialect.ts';

/**
 * Whether what is balanced may pass where a table of vipnat's replaces iptables. Nobody can write to a table filter that iptables cannot
 * show: if its policy drops, connections to apiservers on other hosts would hang that the VIP holder answers now. Where rules of vipnat's
 * are, those for that table are, too: they were written when it could be shown.
 * @throws VipnatError TABLE_INCOMPATIBLE
 */
export async function requirePassage(
  kernel: Pick<Kernel, 'listForwardChains'>,
  observation: Observation,
  { iptables, vips }: Pick<Config, 'iptables' | 'vips'>,
): Promise<void> {
  const { dialect, proxyMode, unread } = observation;
  if (iptables !== 'auto' || dialect.value !== 'nftables' || proxyMode.value === 'nftables') return;
  const closed = unread
    .filter(({ code, tables }) => code === 'TABLE_INCOMPATIBLE' && tables.includes('filter'))
    .filter(({ family }) => vips.some((vip) => vip.family === family) && !hasRules(observation, family));
  if (closed.length === 0) return;
  const dropping = (await kernel.listForwardChains()).filter(({ isDropping }) => isDropping);
  for (const { family, message } of closed) {
    const chain = dropping.find(({ table }) => table === `${familyToNft[family]} filter`);
    if (chain !== undefined) {
      const passage = `nft insert rule ${chain.table} ${chain.name} ct status dnat accept`;
      throw new VipnatError(
        'TABLE_INCOMPATIBLE',
        `${message}. ${chain.name} drops what vipnat would balance, unless its owner lets it pass: ${passage}`,
      );
    }
  }
}

/** Whether vipnat's rules balance this family already. */
function hasRules({ rulesets, nftRulesets }: Observation, family: Family): boolean {
  return (
    nftRulesets.some((seen) => seen.family === family && seen.table !== null) ||
    rulesets.some(
      (seen) => seen.family === family && [...(seen.tables.get('nat')?.keys() ?? [])].some(isOwnChain),
    )
  );
}

/** kube-proxy's part in one family. */
interface FamilyView {
  /** One view per backend that was read. */
  readonly iptables: readonly { readonly dialect: IptablesDialect; readonly view: IptablesProxyView }[];
  readonly ipvs: ServiceServer;
  readonly nftables: NftProxyView | null;
}

/** One reading of the kernel, complete in all that is needed (I1), understood. */
export interface Observation extends Pick<
  KernelReading,
  'addresses' | 'forwarding' | 'closedDevices' | 'advertised'
> {
  readonly rulesets: readonly Ruleset[];
  readonly nftRulesets: readonly NftRuleset[];
  /** What rules are written to, and why. */
  readonly dialect: Sourced<Dialect>;
  readonly proxyMode: Sourced<FoundProxyMode>;
  /** Whether kube-proxy's rules are left over: nobody maintains them. False when left out. */
  readonly isProxyAbsent?: boolean;
  readonly views: Readonly<Record<Family, FamilyView>>;
  /** What could not be read or understood, and is not needed. */
  readonly unread: readonly UnreadRules[];
}

/**
 * Understands what was read. `before` is what rules were written to so far: where the choice would rest on what is
 * unread, it stays. Pure.
 * @throws VipnatError when a part that is needed could not be read or understood, with its reason: an observation
 *   is complete in what it needs, or none (I1).
 */
export function interpret(
  reading: KernelReading,
  asked: string | null,
  config: Config,
  before: Dialect | null = null,
): Observation {
  const { rulesets, nftRulesets, unread } = understandRules(reading);
  const views = {
    ipv4: viewFamily('ipv4', reading, rulesets, config),
    ipv6: viewFamily('ipv6', reading, rulesets, config),
  };
  const all = families.map((family) => views[family]);
  const iptablesViews = all.flatMap(({ iptables }) => iptables.map(({ view }) => view));
  const proxyMode = decideProxyMode({
    asked,
    configured: config.proxyMode,
    iptables: iptablesViews,
    hasIpvsServer: all.some(({ ipvs }) => ipvs.server !== null),
    hasNftEntryRule: all.some(({ nftables }) => nftables !== null && nftables.entryRule !== null),
  });
  const iptables = chooseIptablesDialect(rulesets, config.iptables === 'none' ? 'auto' : config.iptables, {
    entryRule: findLiveBackend(all),
    before: before === 'nftables' ? null : before,
    ...listBackends(rulesets, unread, config.vips),
  });
  const ofIptables = [...rulesets, ...unread.filter((one) => one.dialect !== 'nftables')];
  const dialect = chooseDialect({
    configured: config.iptables,
    iptables,
    hasIptables: config.vips.every((vip) => ofIptables.some(({ family }) => family === vip.family)),
    hasNft: [...nftRulesets, ...unread].some((one) => one.dialect === 'nftables'),
    isNftProxy: proxyMode.value === 'nftables',
    unshowable: findUnshowable(unread, iptables.value, config.vips),
  });
  requireNeeded(unread, {
    families: new Set(config.vips.map(({ family }) => family)),
    dialect: dialect.value,
    proxyMode: proxyMode.value,
    isModeByRules: config.proxyMode === 'auto' && !isProxyMode(asked) && !iptablesViews.some(isAlive),
  });
  const { addresses, forwarding, closedDevices = [], advertised } = reading;
  const host = { addresses, forwarding, closedDevices, advertised };
  return { rulesets, nftRulesets, ...host, views, dialect, proxyMode, unread };
}

type ProxyPart = Pick<NftProxyView, 'backends' | 'affinitySeconds'>;

const noProxyPart: ProxyPart = { backends: null, affinitySeconds: null };

/** The apiservers of this family that kube-proxy has programmed, in the mode it runs in, and for how long a client stays with one. */
export function findProxyPart(
  { iptables, ipvs: { server }, nftables }: FamilyView,
  mode: FoundProxyMode,
): ProxyPart {
  switch (mode) {
    case 'iptables': {
      const views = iptables.map(({ view }) => view);
      const { affinitySeconds = null } = views.find((view) => view.affinitySeconds !== null) ?? {};
      return { backends: findLiveBackends(views), affinitySeconds };
    }
    case 'ipvs':
      return server === null
        ? noProxyPart
        : { ...server.value, backends: { ...server, value: server.value.backends } };
    case 'nftables':
      return nftables ?? noProxyPart;
    case 'none':
      return noProxyPart;
  }
}

/** Rules that packets get to come before leftovers in the other dialect. */
function findLiveBackends(views: readonly IptablesProxyView[]): IptablesProxyView['backends'] {
  const live = views.filter(({ backends }) => backends !== null);
  return (live.find(({ isHooked }) => isHooked) ?? live[0])?.backends ?? null;
}

function viewFamily(
  family: Family,
  reading: KernelReading,
  rulesets: readonly Ruleset[],
  config: Config,
): FamilyView {
  const nft = reading.nftProxies.find((output) => output.family === family);
  const clusterIp = config.clusterIps[family];
  return {
    iptables: rulesets
      .filter((ruleset) => ruleset.family === family)
      .map((ruleset) => ({ dialect: ruleset.dialect, view: readIptablesProxy(ruleset, kubernetesService) })),
    ipvs: findKubernetesServer(parseIpvs(reading.ipvs ?? ''), {
      family,
      localAddresses: reading.addresses.map(({ address }) => address),
      ...(clusterIp === undefined ? {} : { clusterIp }),
    }),
    nftables: nft === undefined ? null : readNftProxy(nft, kubernetesService),
  };
}

/** Which backends can be written to here, and in which of them something of a family with a VIP is unread. */
function listBackends(
  rulesets: readonly Ruleset[],
  unread: readonly UnreadRules[],
  vips: readonly Endpoint[],
): { candidates: readonly IptablesDialect[]; unread: readonly IptablesDialect[] } {
  // A kernel without nf_tables is read whole by that.
  const doubtful = unread.filter(({ code }) => code !== 'NF_TABLES_MISSING');
  const isIn = (seen: readonly { readonly dialect: Dialect }[]) => (dialect: IptablesDialect) =>
    seen.some((one) => one.dialect === dialect);
  const ofVips = doubtful.filter(({ family }) => vips.some((vip) => vip.family === family));
  return {
    candidates: iptablesDialects.filter(isIn([...rulesets, ...doubtful])),
    unread: iptablesDialects.filter(isIn(ofVips)),
  };
}

/** The backend that alone has kube-proxy's live rule that leads to its chain; null when both or neither have one. */
function findLiveBackend(views: readonly FamilyView[]): IptablesDialect | null {
  const live = iptablesDialects.filter((dialect) =>
    views.some(({ iptables }) =>
      iptables.some((seen) => seen.dialect === dialect && seen.view.entryRule !== null),
    ),
  );
  return live.length === 1 ? (live[0] ?? null) : null;
}

/** Understands what the tools printed; unread is also what was read and not understood. What one of them printed and nobody understands keeps no other from being understood. Pure. */
export function understandRules(
  reading: Pick<KernelReading, 'iptables' | 'nftTables' | 'unread'>,
): Pick<Observation, 'rulesets' | 'nftRulesets' | 'unread'> {
  const iptables = reading.iptables.map((output) => understandSave(output, reading.unread));
  const nftables = reading.nftTables.map((output) =>
    understand(() => parseNftTable(output), {
      family: output.family,
      dialect: 'nftables',
      tables: ['vipnat'],
    }),
  );
  return {
    rulesets: iptables.flatMap(({ found }) => found),
    nftRulesets: nftables.flatMap(({ found }) => found),
    unread: [...reading.unread, ...[...iptables, ...nftables].flatMap(({ unread }) => unread)],
  };
}

function understandSave(output: SaveOutput, unread: readonly UnreadRules[]) {
  const { family, dialect } = output;
  const { found, unread: misunderstood } = understand(() => parseSave(output), {
    family,
    dialect,
    tables: iptablesTables,
  });
  const unreadTables = unread
    .filter((one) => one.family === family && one.dialect === dialect)
    .flatMap(({ tables }) => tables);
  return {
    found: found.map((ruleset) => ({
      ...ruleset,
      unread: iptablesTables.filter(
        (table) => ruleset.unread.includes(table) || unreadTables.includes(table),
      ),
    })),
    unread: [...misunderstood, ...found.flatMap(listIncompatible)],
  };
}

function listIncompatible(ruleset: Ruleset): UnreadRules[] {
  const { family, dialect, unread } = ruleset;
  return unread.map((one) => toUnread({ family, dialect, tables: [one] }, toIncompatible(ruleset, one)));
}

function understand<T>(parse: () => T, rules: Parameters<typeof toUnread>[0]) {
  try {
    return { found: [parse()], unread: [] };
  } catch (error) {
    return { found: [], unread: [toUnread(rules, error)] };
  }
}

/** The kernel's chains: vipnat's hooks are there, and whatever comes before them or drops what is forwarded. */
const hookedChains = ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'];

/** kube-proxy's chains that show its mode, where it sends connections to the Service, and how it masquerades. */
const proxyChains = ['KUBE-SERVICES', serviceChain, 'KUBE-MARK-MASQ'];

/** All chains of iptables that an assessment rests on. A host has some dozens of them, however many rules others have. */
export const neededChains: ChainSelection = {
  names: [...hookedChains, ...proxyChains, ...dialectHints],
  prefixes: [dispatchChain],
  referred: ['KUBE-SEP-'],
};

/**
 * Whether what is written and decided rests on nothing unread (I1): the tables that are written to, and kube-proxy's
 * that a balancing mode or kube-proxy's mode is taken from, in the families that have a VIP.
 * @throws VipnatError the reason why one of them could not be read.
 */
function requireNeeded(unread: readonly UnreadRules[], choice: Choice): void {
  const needed = listNeeded(choice);
  const missing = unread.find(
    ({ family, dialect, tables, code }) =>
      choice.families.has(family) &&
      // A kernel without nf_tables has no rules of kube-proxy's in it.
      !(code === 'NF_TABLES_MISSING' && tables.includes('kube-proxy')) &&
      tables.some((table) => needed.includes(`${dialect} ${table}`)),
  );
  if (missing === undefined) return;
  const { code, message, details } = missing;
  throw new VipnatError(code, message, details === undefined ? {} : { details });
}
