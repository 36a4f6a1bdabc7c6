import { type Family } from '../../lib/address/address.ts';
import { type Endpoint, formatEndpoint, isAtVip } from '../../lib/address/endpoint.ts';
import { type Sourced } from '../../lib/text/sourced.ts';
import { type IptablesProxyView } from '../../lib/kube-proxy/iptables.ts';
import { type Balance, type Weights } from '../../lib/netfilter/rules/balance.ts';
import { rememberAffinity } from '../endpoints/affinity.ts';
import { type Config } from '../../config/config.ts';
import { decide } from './decide.ts';
import { fitWeights } from './weigh-apiservers.ts';
import { type Decision, type ProxyPath, type VipFacts } from './decision.ts';
import { isAgreeing } from './proxy-path.ts';
import { wayToEntry } from './ways.ts';
import { findMissingSwitches, type MissingSwitch } from './missing-switches.ts';
import { type VipCandidates } from '../endpoints/candidates.ts';
import { rememberApiservers } from '../endpoints/remember.ts';
import { listAnswerers } from './answerers.ts';
import { findInstalled, listAnswering } from '../endpoints/installed.ts';
import { chooseUsable, type HealthView } from '../health/usable.ts';
import { type ReconcileState, renderingKey, unseenVip, type VipState } from '../observe/reconcile-state.ts';
import { type Observation } from '../observe/observe.ts';
import { plan } from './plan.ts';
import { type LocalRoutes } from '../../lib/kernel/port.ts';
import { findSources, planSourceRoutes, type RouteChange } from './source-routes.ts';
import { nameUnread } from '../../lib/kernel/real/unread.ts';
import { type Plan } from '../../lib/netfilter/plan/table-plan.ts';

/** A whole look: what was seen, how each VIP goes, what to write for it, and what to remember. */
export interface Assessment {
  readonly observation: Observation;
  readonly candidates: readonly VipCandidates[];
  readonly decisions: readonly Decision[];
  /** Whoever may answer connections, also open ones, see listAnswerers: by the text of the VIP. */
  readonly answerers: ReadonlyMap<string, readonly Endpoint[]>;
  readonly plan: Plan;
  /** What has to be switched on before what is balanced gets anywhere. */
  readonly missingSwitches: readonly MissingSwitch[];
  /** How this host reaches its own addresses; null where that could not be read: rules do not depend on it. */
  readonly localRoutes: LocalRoutes | null;
  /** What an agent does about this host's own connections to VIPs. */
  readonly sourceRoutes: readonly RouteChange[];
  /** VIP address to the source of this host's own connections to it, of IPv4 VIPs that are here. */
  readonly sources: ReadonlyMap<string, string>;
  /** Who was named as an apiserver and cannot be one: a sentence for each. */
  readonly refused: readonly string[];
  /** How the apiservers were found. */
  readonly health: HealthView;
  readonly memory: ReconcileState;
}

/** What an assessment rests on. */
export interface ReconcileInput {
  readonly observation: Observation;
  /** Null where they could not be read. */
  readonly localRoutes: LocalRoutes | null;
  /** Of each VIP that is balanced: what is decided is decided of these. */
  readonly candidates: readonly VipCandidates[];
  readonly health: HealthView;
  readonly memory: ReconcileState;
  /** With the method `lc`, VIP texts to what was counted: null for equal weights. VIPs of which nothing is known yet are left out. */
  readonly weights?: ReadonlyMap<string, Weights | null> | undefined;
  /** See HealthSource. */
  readonly open?: ReadonlySet<string> | null | undefined;
}

/**
 * From what was seen to what to write: decide, plan. Pure: the loop, `plan`, `check` and `run --once` all go
 * through here, so what is shown is what is done.
 */
export function assess(input: ReconcileInput, config: Config): Assessment {
  const { observation, localRoutes, candidates, health, memory } = input;
  // Once for all VIPs: without another source, the rules of all of them are read for it.
  const affinity = rememberAffinity(observation, config.vips, memory);
  const facts = candidates.map((one) => gatherFacts(one, { ...input, affinity }, config));
  const decisions = facts.map(decide);
  const balances = toBalances(decisions, input, config);
  return {
    observation,
    candidates,
    decisions,
    answerers: new Map(balances.map(({ vip, apiservers = [] }) => [formatEndpoint(vip), apiservers])),
    plan: plan(
      { dialect: observation.dialect.value, balances },
      [...observation.rulesets, ...observation.nftRulesets],
      (dialect, id, printed) => memory.renderings.get(renderingKey(dialect, id)) === printed,
    ),
    missingSwitches: findMissingSwitches(observation, config, localRoutes),
    localRoutes,
    sourceRoutes: localRoutes === null ? [] : planSourceRoutes(localRoutes, config),
    sources: localRoutes === null ? new Map() : findSources(localRoutes, config.vips),
    health,
    refused: [...candidates.flatMap((one) => one.candidates.refused), ...(memory.api?.refused ?? [])],
    memory: {
      ...memory,
      ...rememberApiservers({ observation, config, memory }),
      dialect: observation.dialect.value,
      unread: rememberUnread(observation, memory),
      affinity,
      vips: new Map(
        decisions.map(({ vip, isBypass }, index) => [
          formatEndpoint(vip),
          { isBypass, agreedLooks: facts[index]?.agreedLooks ?? 0 },
        ]),
      ),
    },
  };
}

function rememberUnread({ unread }: Observation, before: ReconcileState): ReconcileState['unread'] {
  const names = nameUnread(unread);
  return { names, isNew: names !== '' && names !== before.unread.names };
}

function gatherFacts(
  { vip, candidates }: VipCandidates,
  input: ReconcileInput & Pick<ReconcileState, 'affinity'>,
  config: Config,
): VipFacts {
  const { observation, health, memory, affinity } = input;
  const { proxyMode } = observation;
  const { ipvs } = observation.views[vip.family];
  const iptables = findView(vip, observation);
  const usable = chooseUsable(candidates, health);
  const isUntried = usable.value.some((one) => health.get(formatEndpoint(one))?.isUntried === true);
  const before = memory.vips.get(formatEndpoint(vip)) ?? beginVip(vip, observation, isUntried);
  const facts = {
    vip,
    mode: config.mode,
    ...(config.method === 'random'
      ? {}
      : { method: config.method, weights: findWeights(vip, usable.value, input) }),
    proxyMode,
    closedSwitch: findClosedSwitch(vip.family, input, config),
    ...findServiceChain(iptables, observation, config.vips),
    virtualServer: toPath(ipvs.server, ipvs.server?.value.backends, config.vips),
    virtualServerProblem: ipvs.reason,
    unwanted: iptables?.unwanted ?? null,
    usable,
    affinitySeconds: affinity[vip.family] ?? null,
    apiSource: candidates.isFromApi ? candidates.seenIn : null,
  };
  return {
    ...facts,
    // To agree with what no probe has shown yet ends no bypass.
    agreedLooks: isAgreeing(facts) ? (isUntried ? 0 : before.agreedLooks) + 1 : 0,
    wasBypassing: before.isBypass,
  };
}

/** As the agent has counted; else as rules have it, by which any process decides as the last agent did. */
function findWeights(
  vip: Endpoint,
  usable: readonly Endpoint[],
  { observation, weights }: ReconcileInput,
): Weights | undefined {
  const counted = weights?.get(formatEndpoint(vip));
  const known = counted === undefined ? findInstalled(vip, observation)?.weights : (counted ?? undefined);
  return known === undefined ? undefined : fitWeights(known, usable);
}

/** The process before may have left kube-proxy's chain for a reason that only probes can show: its rules count until then. */
function beginVip(vip: Endpoint, observation: Observation, isUntried: boolean): VipState {
  return { ...unseenVip, isBypass: isUntried && findInstalled(vip, observation) !== null };
}

/** What can be switched on is as good as on: that is done before any rule is written. */
function findClosedSwitch(
  family: Family,
  { observation, localRoutes, memory }: Pick<ReconcileInput, 'observation' | 'localRoutes' | 'memory'>,
  config: Config,
): string | null {
  const closed = findMissingSwitches(observation, config, localRoutes).find((one) => one.family === family);
  if (closed === undefined) return null;
  return config.sysctls === 'set' && !memory.unforwardable.has(family) ? null : closed.name;
}

/** Whoever takes kube-proxy away takes its hooks first: a jump of ours would keep its chains from going (I11). */
function findServiceChain(
  view: IptablesProxyView | undefined,
  { dialect }: Observation,
  vips: readonly Endpoint[],
): Pick<VipFacts, 'serviceChain' | 'serviceChainProblem'> {
  if (dialect.value === 'nftables') {
    const cause = `vipnat writes its rules with nft (${dialect.seenIn}), and a table of nftables cannot jump to kube-proxy's chains`;
    return { serviceChain: null, serviceChainProblem: cause };
  }
  const path = toPath(view?.liveEdge, view?.backends?.value, vips);
  if (path === null || view?.isHooked === true) return { serviceChain: path, serviceChainProblem: null };
  const problem = "packets do not reach kube-proxy's rules: nat PREROUTING has no jump to KUBE-SERVICES";
  return { serviceChain: null, serviceChainProblem: problem };
}

/** kube-proxy's part in the backend that we write to. */
function findView(vip: Endpoint, { views, dialect }: Observation): IptablesProxyView | undefined {
  return views[vip.family].iptables.find((seen) => seen.dialect === dialect.value)?.view;
}

function toPath(
  edge: Sourced<{ readonly clusterIp: string }> | null | undefined,
  backends: readonly Endpoint[] | undefined,
  vips: readonly Endpoint[],
): ProxyPath | null {
  if (edge === null || edge === undefined || backends === undefined) return null;
  const loop = backends.find((endpoint) => isAtVip(endpoint, vips)) ?? null;
  return { clusterIp: edge.value.clusterIp, backends, loop, seenIn: edge.seenIn };
}

function toBalances(
  decisions: readonly Decision[],
  { observation, candidates, open = null }: ReconcileInput,
  config: Config,
): Balance[] {
  // Once for all VIPs: reading rules back takes time.
  const installed = { ipv4: listAnswering('ipv4', observation), ipv6: listAnswering('ipv6', observation) };
  return decisions.map((decision, index) => {
    const listed = candidates[index]?.candidates.value ?? [];
    const known = { decision, candidates: listed, installed: installed[decision.vip.family] };
    return {
      ...toBalance(decision, observation, config),
      apiservers: listAnswerers(known, open, config),
    };
  });
}

/** A decision as something that can be rendered. kube-proxy's mark is used only while it is really set there. */
function toBalance(decision: Decision, observation: Observation, config: Config): Balance {
  const view = findView(decision.vip, observation);
  const canMark =
    view !== undefined && view.masqueradeMark !== null && view.unwanted === null && view.isHooked;
  return {
    vip: decision.vip,
    route: wayToEntry[decision.way].toRoute(decision),
    masquerade: config.masquerade === 'kube-mark' && !canMark ? 'own' : config.masquerade,
  };
}

/** Whether another look soon may end a bypass, or read what just became unreadable. */
export function isUndecided({ memory }: Pick<Assessment, 'memory'>): boolean {
  return (
    memory.unread.isNew ||
    [...memory.vips.values()].some(({ isBypass, agreedLooks }) => isBypass && agreedLooks > 0)
  );
}
