import type { Assessment, Decision } from './decision.ts';
import type { Config, BalancingMode } from '../../config/options.ts';
import { modeToEntry, listEligible } from './mode.ts';
import { plan } from './plan.ts';
import type { Sourced } from '../../lib/text.ts';
import type { Dialect } from '../../lib/kernel/port.ts';
import { type Family, formatEndpoint } from '../../lib/net.ts';
import type { Ruleset } from '../../lib/iptables/rules.ts';
import type { NftRuleset } from '../../lib/nft/table.ts';

/** The part of an assessment that a plan is printed from. */
export type PlannedState = Pick<
  Assessment,
  'decisions' | 'plan' | 'missingSwitches' | 'sourceRoutes' | 'sources' | 'refused'
> & {
  readonly observation: Pick<Assessment['observation'], 'addresses' | 'dialect' | 'proxyMode' | 'unread'>;
};

/**
 * What would be written on a host without any rules of vipnat's on which kube-proxy runs as the configuration says.
 * Reads nothing; `--proxy-mode` is not `auto` here, and what the mode needs was given.
 */
export function planOffline(config: Config): PlannedState {
  const decisions = config.vips.map((vip): Decision => {
    const mode = chooseOfflineMode(config);
    return {
      vip,
      mode,
      reason: `vipnat read nothing (--offline), and assumes --proxy-mode ${config.proxyMode}`,
      isBypass: false,
      affinitySeconds: null,
      clusterIp: config.clusterIps[vip.family] ?? null,
      backends: config.endpoints.filter(({ family }) => family === vip.family),
    };
  });
  const dialect = chooseBackend(config);
  const families = [...new Set(config.vips.map(({ family }) => family))].sort();
  const balances = decisions.map((decision) => ({
    vip: decision.vip,
    route: modeToEntry[decision.mode].toRoute(decision),
    masquerade: config.masquerade,
    apiservers: decision.backends,
  }));
  const proxyMode = config.proxyMode === 'auto' ? 'none' : config.proxyMode;
  return {
    decisions,
    missingSwitches: [],
    sourceRoutes: [],
    sources: new Map(),
    refused: [],
    plan: plan(
      { dialect: dialect.value, balances },
      families.map((family) => emptyRuleset(family, dialect.value)),
    ),
    observation: {
      addresses: [],
      dialect,
      proxyMode: { value: proxyMode, seenIn: '--proxy-mode' },
      unread: [],
    },
  };
}

/** The first mode that is possible by the options: nothing is read, so nothing speaks against it. */
export function chooseOfflineMode(config: Pick<Config, 'mode' | 'proxyMode'>): BalancingMode {
  const [first = 'passthrough'] = listEligible(config);
  return first;
}

function chooseBackend({ iptables, proxyMode }: Config): Sourced<Dialect> {
  if (iptables === 'none') return { value: 'nftables', seenIn: '--iptables none' };
  if (iptables !== 'auto') return { value: iptables, seenIn: '--iptables' };
  return proxyMode === 'nftables'
    ? { value: 'nftables', seenIn: '--proxy-mode nftables' }
    : { value: 'nft', seenIn: 'the default' };
}

function emptyRuleset(family: Family, dialect: Dialect): Ruleset | NftRuleset {
  if (dialect === 'nftables') return { family, dialect, table: null };
  return { family, dialect, tables: new Map(), forwardPolicy: null, unread: [] };
}

/** `service-chain`, `direct to 10.0.0.11:6443, 10.0.0.12:6443`, `passthrough`: what changed when this text did. */
export function describeMode(decision: Decision): string {
  return modeToEntry[decision.mode].name(decision);
}

/** The modes of all VIPs, and whoever may answer: another text asks for other rules. */
export function describeWanted({
  decisions,
  answerers,
}: Pick<Assessment, 'decisions' | 'answerers'>): string {
  const apiservers = [...answerers.values()].map((endpoints) => endpoints.map(formatEndpoint).join());
  return [...decisions.map(describeMode), ...apiservers].join(';');
}
