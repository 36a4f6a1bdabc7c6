import { families, type Family } from '../lib/address/address.ts';
import { type Endpoint, formatEndpoint } from '../lib/address/endpoint.ts';
import { type KernelReading } from '../lib/kernel/port.ts';
import { type Finding } from '../lib/finding.ts';
import { type IptablesProxyView } from '../lib/kube-proxy/iptables.ts';
import { readWrittenBackends } from '../lib/netfilter/iptables/read-back.ts';
import { type Balance } from '../lib/netfilter/iptables/render.ts';
import { type Config } from './config/config.ts';
import { decide, type Decision, isAgreeing, type ProxyPath, type VipFacts } from './decide.ts';
import { chooseEndpoints, rememberEndpoints } from './discovery/endpoints.ts';
import { type Memory, printKey, unseenVip } from './memory.ts';
import { findProxyBackends, interpret, type Observation } from './observe.ts';
import { plan, type Plan } from './plan.ts';
import { toRoute } from './route.ts';

/** A whole look: what was seen, how each VIP goes, what to write for it, and what to remember. */
export interface Assessment {
  readonly observation: Observation;
  readonly decisions: readonly Decision[];
  readonly plan: Plan;
  readonly memory: Memory;
}

/**
 * From what was read to what to write: observe, decide, plan. Pure: the loop, `plan`, `check` and `run --once`
 * all go through here, so what is shown is what is done.
 * @throws VipnatError when the reading cannot be understood, see `interpret`.
 */
export function assess(
  reading: KernelReading,
  asked: string | null,
  config: Config,
  memory: Memory,
): Assessment {
  const observation = interpret(reading, asked, config);
  const facts = config.vips.map((vip) => gatherFacts(vip, observation, config, memory));
  const decisions = facts.map(decide);
  const balances = decisions.map((decision) => toBalance(decision, observation, config));
  return {
    observation,
    decisions,
    plan: plan(
      { backend: observation.backend.value, balances },
      observation.rulesets,
      (backend, id, printed) => memory.prints.get(printKey(backend, id)) === printed,
    ),
    memory: {
      ...memory,
      endpoints: remember(observation, memory),
      vips: new Map(
        decisions.map(({ vip, isBypass }, index) => [
          formatEndpoint(vip),
          { isBypass, agreedLooks: facts[index]?.agreedLooks ?? 0 },
        ]),
      ),
    },
  };
}

function gatherFacts(vip: Endpoint, observation: Observation, config: Config, memory: Memory): VipFacts {
  const { proxyMode } = observation;
  const { ipvs } = observation.views[vip.family];
  const iptables = findView(vip, observation);
  const before = memory.vips.get(formatEndpoint(vip)) ?? unseenVip;
  const facts = {
    vip,
    mode: config.mode,
    proxyMode,
    ...findServiceChain(iptables),
    virtualServer: toPath(ipvs.server, ipvs.server?.value.backends),
    virtualServerProblem: ipvs.reason,
    unwanted: iptables?.unwanted ?? null,
    usable: findUsable(vip, observation, config, memory),
  };
  return {
    ...facts,
    agreedLooks: isAgreeing(facts) ? before.agreedLooks + 1 : 0,
    wasBypassing: before.isBypass,
  };
}

/** Whoever takes kube-proxy away takes its hooks first: a jump of ours would keep its chains from going (I11). */
function findServiceChain(
  view: IptablesProxyView | undefined,
): Pick<VipFacts, 'serviceChain' | 'serviceChainProblem'> {
  const path = toPath(view?.liveEdge, view?.backends?.value);
  if (path === null || view?.isHooked === true) return { serviceChain: path, serviceChainProblem: null };
  const problem = "nothing leads to kube-proxy's rules: nat PREROUTING has no jump to KUBE-SERVICES";
  return { serviceChain: null, serviceChainProblem: problem };
}

/** kube-proxy's part in the backend that we write to. */
function findView(vip: Endpoint, { views, backend }: Observation): IptablesProxyView | undefined {
  return views[vip.family].iptables.find((seen) => seen.backend === backend.value)?.view;
}

function findUsable(
  vip: Endpoint,
  observation: Observation,
  config: Config,
  memory: Memory,
): VipFacts['usable'] {
  const { rulesets, backend, views, proxyMode } = observation;
  const { family } = vip;
  // Also the other backend's: the choice may have changed since they were written.
  const written = rulesets
    .filter((seen) => seen.family === family)
    .toSorted((a, b) => Number(b.backend === backend.value) - Number(a.backend === backend.value))
    .map(({ tables }) => readWrittenBackends(tables.get('nat'), vip));
  return chooseEndpoints({
    family,
    kubeProxy: findProxyBackends(views[family], proxyMode.value),
    configured: config.endpoints,
    remembered: memory.endpoints[family] ?? null,
    written: written.find((endpoints) => endpoints.length > 0) ?? [],
    vips: config.vips,
  });
}

function toPath(
  edge: Finding<{ readonly clusterIp: string }> | null | undefined,
  backends: readonly Endpoint[] | undefined,
): ProxyPath | null {
  if (edge === null || edge === undefined || backends === undefined) return null;
  return { clusterIp: edge.value.clusterIp, backends, seenIn: edge.seenIn };
}

/** A decision as something that can be rendered. kube-proxy's mark is used only while it is really set there. */
function toBalance(decision: Decision, observation: Observation, config: Config): Balance {
  const view = findView(decision.vip, observation);
  const canMark =
    view !== undefined && view.masqueradeMark !== null && view.unwanted === null && view.isHooked;
  return {
    vip: decision.vip,
    route: toRoute(decision),
    masquerade: config.masquerade === 'kube-mark' && !canMark ? 'own' : config.masquerade,
  };
}

function remember(observation: Observation, memory: Memory): Memory['endpoints'] {
  const found = families.map((family: Family) => {
    const seen = findProxyBackends(observation.views[family], observation.proxyMode.value);
    return [family, rememberEndpoints(memory.endpoints[family] ?? null, seen)] as const;
  });
  return Object.fromEntries(found.filter(([, endpoints]) => endpoints !== null));
}
