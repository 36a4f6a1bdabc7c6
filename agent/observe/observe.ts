import { type Family, families } from '../../lib/address/address.ts';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import {
  type IptablesDialect,
  iptablesDialects,
  type Forwarding,
  type KernelReading,
  type LocalAddress,
  type Dialect,
  type UnreadRules,
} from '../../lib/kernel/port.ts';
import { type Sourced } from '../../lib/text/sourced.ts';
import { type IptablesProxyView, readIptablesProxy } from '../../lib/kube-proxy/iptables.ts';
import { parseIpvs, type ServiceServer } from '../../lib/kube-proxy/ipvs.ts';
import { decideProxyMode, isProxyMode, type ProxyMode } from './proxy-mode.ts';
import { type NftProxyView, readNftProxy } from '../../lib/kube-proxy/nftables.ts';
import { kubernetesService } from '../../lib/kube-proxy/kubernetes-service.ts';
import { chooseIptablesDialect } from './choose-iptables-dialect.ts';
import { type Ruleset } from '../../lib/netfilter/iptables/ruleset.ts';
import { type NftRuleset } from '../../lib/netfilter/nftables/ruleset.ts';
import { chooseDialect } from './choose-dialect.ts';
import { type Config } from '../../config/config.ts';
import { findKubernetesServer } from './ipvs-server.ts';
import { understandRules } from './understand-rules.ts';
import { findUnshowable, requireNeeded } from './unread.ts';

/** kube-proxy's part in one family. */
export interface FamilyView {
  readonly family: Family;
  /** One view per backend that was read. */
  readonly iptables: readonly { readonly dialect: IptablesDialect; readonly view: IptablesProxyView }[];
  readonly ipvs: ServiceServer;
  readonly nftables: NftProxyView | null;
}

/** One look at the kernel, complete in all that is needed (I1), understood. */
export interface Observation {
  readonly rulesets: readonly Ruleset[];
  readonly nftRulesets: readonly NftRuleset[];
  readonly addresses: readonly LocalAddress[];
  readonly forwarding: Forwarding;
  /** The interfaces that pass on nothing, see KernelReading; none when left out. */
  readonly closedDevices?: readonly string[];
  /** The interfaces that would turn deaf to router advertisements, see KernelReading. */
  readonly advertised: readonly string[];
  /** What rules are written to, and why. */
  readonly dialect: Sourced<Dialect>;
  readonly proxyMode: Sourced<ProxyMode>;
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
    hasNftEdge: all.some(({ nftables }) => nftables !== null && nftables.liveEdge !== null),
  });
  const iptables = chooseIptablesDialect(rulesets, config.iptables === 'none' ? 'auto' : config.iptables, {
    liveEdge: findLiveBackend(all),
    before: before === 'nftables' ? null : before,
    ...listBackends(rulesets, unread, config.vips),
  });
  const dialect = chooseDialect({
    configured: config.iptables,
    iptables,
    hasIptables: coversVips(
      [...rulesets, ...unread.filter((one) => one.dialect !== 'nftables')],
      config.vips,
    ),
    hasNft: [...nftRulesets, ...unread].some((one) => one.dialect === 'nftables'),
    isNftProxy: proxyMode.value === 'nftables',
    unshowable: findUnshowable(unread, iptables.value, config.vips),
  });
  requireNeeded(unread, {
    families: new Set(config.vips.map(({ family }) => family)),
    dialect: dialect.value,
    proxyMode: proxyMode.value,
    isModeByRules: !isModeTold(asked, config) && !iptablesViews.some(isAlive),
  });
  const { addresses, forwarding, closedDevices = [], advertised } = reading;
  const host = { addresses, forwarding, closedDevices, advertised };
  return { rulesets, nftRulesets, ...host, views, dialect, proxyMode, unread };
}

/** The apiservers of this family that kube-proxy has programmed, in the mode it runs in; null if it has programmed none. */
export function findProxyBackends(
  { iptables, ipvs, nftables }: FamilyView,
  mode: ProxyMode,
): Sourced<readonly Endpoint[]> | null {
  switch (mode) {
    case 'iptables':
      return findLiveBackends(iptables.map(({ view }) => view));
    case 'ipvs':
      return ipvs.server === null ? null : { ...ipvs.server, value: ipvs.server.value.backends };
    case 'nftables':
      return nftables?.backends ?? null;
    case 'none':
      return null;
  }
}

/** For how long a client stays with its apiserver in kube-proxy's rules; null for not at all, or where there are none. */
export function findProxyAffinity({ iptables, ipvs, nftables }: FamilyView, mode: ProxyMode): number | null {
  switch (mode) {
    case 'iptables':
      return iptables.map(({ view }) => view.affinitySeconds).find((seconds) => seconds !== null) ?? null;
    case 'ipvs':
      return ipvs.server?.value.affinitySeconds ?? null;
    case 'nftables':
      return nftables?.affinitySeconds ?? null;
    case 'none':
      return null;
  }
}

/** Rules that packets get to come before leftovers in the other dialect. */
function findLiveBackends(views: readonly IptablesProxyView[]): IptablesProxyView['backends'] {
  const live = views.filter(({ backends }) => backends !== null);
  return (live.find(({ isHooked }) => isHooked) ?? live[0])?.backends ?? null;
}

/** Whether the mode is known without the kernel's rules. */
function isModeTold(asked: string | null, { proxyMode }: Config): boolean {
  return proxyMode !== 'auto' || isProxyMode(asked);
}

/** Rules that packets get to and that lead to the service: they come first, whatever is in nftables. */
function isAlive({ isHooked, liveEdge }: IptablesProxyView): boolean {
  return isHooked && liveEdge !== null;
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
    family,
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

function coversVips(seen: readonly { readonly family: Family }[], vips: readonly Endpoint[]): boolean {
  return vips.every((vip) => seen.some(({ family }) => family === vip.family));
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

/** The backend that alone has kube-proxy's live edge; null when both or neither have it. */
function findLiveBackend(views: readonly FamilyView[]): IptablesDialect | null {
  const live = iptablesDialects.filter((dialect) =>
    views.some(({ iptables }) =>
      iptables.some((seen) => seen.dialect === dialect && seen.view.liveEdge !== null),
    ),
  );
  return live.length === 1 ? (live[0] ?? null) : null;
}
