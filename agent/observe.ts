import { type Family, families } from '../lib/address/address.ts';
import { type Endpoint } from '../lib/address/endpoint.ts';
import {
  type Backend,
  backends,
  type Forwarding,
  type KernelReading,
  type LocalAddress,
  type RuleBackend,
} from '../lib/kernel/port.ts';
import { type Finding } from '../lib/finding.ts';
import { type IptablesProxyView, readIptablesProxy } from '../lib/kube-proxy/iptables.ts';
import { findServiceServer, parseIpvs, type ServiceServer } from '../lib/kube-proxy/ipvs.ts';
import { decideProxyMode, type ProxyMode } from '../lib/kube-proxy/mode.ts';
import { type NftProxyView, readNftProxy } from '../lib/kube-proxy/nftables.ts';
import { chooseBackend } from '../lib/netfilter/iptables/backend.ts';
import { parseSave } from '../lib/netfilter/iptables/parse.ts';
import { type Ruleset } from '../lib/netfilter/iptables/ruleset.ts';
import { parseNftTable } from '../lib/netfilter/nftables/parse.ts';
import { type NftRuleset } from '../lib/netfilter/nftables/ruleset.ts';
import { chooseRuleBackend } from '../lib/netfilter/rule-backend.ts';
import { type Config } from './config/config.ts';

/** kube-proxy's part in one family. */
export interface FamilyView {
  readonly family: Family;
  /** One view per backend that was read. */
  readonly iptables: readonly { readonly backend: Backend; readonly view: IptablesProxyView }[];
  readonly ipvs: ServiceServer;
  readonly nftables: NftProxyView | null;
}

/** One complete look at the kernel, understood. */
export interface Observation {
  readonly rulesets: readonly Ruleset[];
  readonly nftRulesets: readonly NftRuleset[];
  readonly addresses: readonly LocalAddress[];
  readonly forwarding: Forwarding;
  /** The interfaces whose default route would go with forwarding alone, see KernelReading. */
  readonly advertised: readonly string[];
  /** What rules are written to, and why. */
  readonly backend: Finding<RuleBackend>;
  readonly proxyMode: Finding<ProxyMode>;
  readonly views: Readonly<Record<Family, FamilyView>>;
}

/**
 * Understands what was read. Pure.
 * @throws VipnatError TABLE_INCOMPATIBLE or TOOL_OUTPUT_UNEXPECTED when a part cannot be understood: an
 *   observation is complete or none (I1).
 */
export function interpret(reading: KernelReading, asked: string | null, config: Config): Observation {
  const rulesets = reading.iptables.map(parseSave);
  const views = {
    ipv4: viewFamily('ipv4', reading, rulesets, config),
    ipv6: viewFamily('ipv6', reading, rulesets, config),
  };
  const all = families.map((family) => views[family]);
  const proxyMode = decideProxyMode({
    asked,
    configured: config.proxyMode,
    iptables: all.flatMap(({ iptables }) => iptables.map(({ view }) => view)),
    hasIpvsServer: all.some(({ ipvs }) => ipvs.server !== null),
    hasNftEdge: all.some(({ nftables }) => nftables !== null && nftables.liveEdge !== null),
  });
  const nftRulesets = reading.nftTables.map(parseNftTable);
  return {
    rulesets,
    nftRulesets,
    addresses: reading.addresses,
    forwarding: reading.forwarding,
    advertised: reading.advertised,
    views,
    backend: chooseRuleBackend({
      configured: config.iptables,
      iptables: chooseBackend(
        rulesets,
        config.iptables === 'none' ? 'auto' : config.iptables,
        findLiveBackend(all),
      ),
      hasIptables: coversVips(rulesets, config),
      hasNft: nftRulesets.length > 0,
      isNftProxy: proxyMode.value === 'nftables',
    }),
    proxyMode,
  };
}

/** What kube-proxy has as apiservers of this family, in the mode it runs in; null when it has no say. */
export function findProxyBackends(
  { iptables, ipvs, nftables }: FamilyView,
  mode: ProxyMode,
): Finding<readonly Endpoint[]> | null {
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

/** Rules that packets get to come before leftovers in the other backend. */
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
    family,
    iptables: rulesets
      .filter((ruleset) => ruleset.family === family)
      .map((ruleset) => ({ backend: ruleset.backend, view: readIptablesProxy(ruleset) })),
    ipvs: findServiceServer(parseIpvs(reading.ipvs ?? ''), {
      family,
      localAddresses: reading.addresses.map(({ address }) => address),
      ...(clusterIp === undefined ? {} : { clusterIp }),
    }),
    nftables: nft === undefined ? null : readNftProxy(nft),
  };
}

function coversVips(rulesets: readonly Ruleset[], { vips }: Config): boolean {
  return vips.every((vip) => rulesets.some(({ family }) => family === vip.family));
}

/** The backend that alone has kube-proxy's live edge; null when both or neither have it. */
function findLiveBackend(views: readonly FamilyView[]): Backend | null {
  const live = backends.filter((backend) =>
    views.some(({ iptables }) =>
      iptables.some((seen) => seen.backend === backend && seen.view.liveEdge !== null),
    ),
  );
  return live.length === 1 ? (live[0] ?? null) : null;
}
