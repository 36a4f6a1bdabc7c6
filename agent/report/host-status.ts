import { type Endpoint, formatEndpoint, parseEndpoint, sortEndpoints } from '../../lib/address/endpoint.ts';
import { type KeepalivedView } from '../../lib/keepalived/find.ts';
import { type Assessment } from '../decide/assess.ts';
import { type Decision, findShares } from '../decide/decision.ts';
import { type Drain } from '../../lib/files/drain-store.ts';
import { type HealthState } from '../health/endpoint-health.ts';
import { type Health } from '../health/usable.ts';
import { type AgentActivity } from '../http/agent-activity.ts';
import { type VrrpState } from '../../lib/keepalived/notices.ts';
import { nameInstance } from '../../lib/keepalived/names.ts';
import { isBalanced } from '../../config/way.ts';
import { describeDrift } from '../../lib/netfilter/plan/table-plan.ts';
import { type HolderInfo } from '../../lib/http/singleton.ts';

/** One apiserver as a VIP sees it. */
export interface BackendStatus {
  readonly endpoint: Endpoint;
  readonly isLocal: boolean;
  readonly state: HealthState;
  /** One phrase for people; empty where there is nothing to say. */
  readonly reason: string;
  /** For how long the running agent has found it so; null without an agent. */
  readonly forMs: number | null;
  /** How many established connections of the VIP it has through this node; null where they cannot be counted. */
  readonly flows: number | null;
  /** Of the VIP's new connections, from 0 to 1; null where kube-proxy chooses. */
  readonly share: number | null;
}

/** One VIP on this host. */
export interface VipStatus {
  readonly decision: Decision;
  readonly isHeld: boolean;
  readonly backends: readonly BackendStatus[];
  readonly keepalived: KeepalivedView;
  /** What state keepalived has told the agent that its instance is in, and for how long; null where it was not heard. */
  readonly vrrp: { readonly state: VrrpState; readonly forMs: number } | null;
}

/** All that `vipnat status` tells. */
export interface HostStatus {
  readonly assessment: Assessment;
  readonly agent: HolderInfo | null;
  readonly activity: AgentActivity | null;
  readonly vips: readonly VipStatus[];
  /** The drain of this host; null where it is not drained. */
  readonly drain: Drain | null;
}

/** What was found beside the assessment. */
export interface StatusFindings {
  readonly agent: HolderInfo | null;
  readonly activity: AgentActivity | null;
  /** As of HostStatus; not drained where left out. */
  readonly drain?: Drain | null;
  /** By VIP text: what each backend has, or null. */
  readonly flows: ReadonlyMap<string, ReadonlyMap<string, number> | null>;
  /** By VIP address. */
  readonly keepalived: ReadonlyMap<string, KeepalivedView>;
}

/** Puts together what was found. Pure. */
export function toHostStatus(assessment: Assessment, findings: StatusFindings): HostStatus {
  const { agent, activity, drain = null } = findings;
  const { addresses } = assessment.observation;
  const vips = assessment.decisions.map((decision): VipStatus => {
    const { vip } = decision;
    return {
      decision,
      isHeld: addresses.some(({ address }) => address === vip.address),
      backends: listBackends(decision, assessment, findings),
      keepalived: findings.keepalived.get(vip.address) ?? { isRunning: false, instance: null },
      vrrp: activity?.keepalived?.[nameInstance(vip.address)] ?? null,
    };
  });
  return { assessment, agent, activity, vips, drain };
}

/** Whether a keepalived is seen on this host, or has told the agent of the VIP's instance. */
export function isKeepalivedSeen({ keepalived, vrrp }: VipStatus): boolean {
  return vrrp !== null || keepalived.isRunning;
}

/**
 * The state of a VIP's instance: as keepalived says, else MASTER where the VIP is on this host beside a keepalived. Null
 * where neither is known: a VIP that is not here can mean BACKUP, FAULT or STOP.
 */
export function toVrrpState({ isHeld, keepalived, vrrp }: VipStatus): VrrpState | null {
  if (vrrp !== null) return vrrp.state;
  return keepalived.isRunning && isHeld ? 'MASTER' : null;
}

/** Whether something needs a person: a VIP is not balanced, or the rules are not as they should be. */
export function isInTrouble({ assessment }: HostStatus): boolean {
  return (
    !assessment.decisions.every(isBalanced) ||
    describeDrift(assessment.plan).length > 0 ||
    assessment.missingSwitches.length > 0
  );
}

/** One that nobody has probed. */
const trusted: Pick<Health, 'state' | 'reason' | 'unconfirmedFailure' | 'livenessOnly'> = {
  state: 'ready',
  reason: '',
};

/** Also those that get no new connections. */
function listBackends(
  decision: Decision,
  { health, observation }: Assessment,
  { activity, flows }: StatusFindings,
): BackendStatus[] {
  const { vip, backends } = decision;
  const shares = findShares(decision);
  const probed = [...health.keys()].map((text) => parseEndpoint(text)).filter((one) => one !== null);
  const known = [...backends, ...probed].filter(({ family }) => family === vip.family);
  const counts = flows.get(formatEndpoint(vip)) ?? null;
  return sortEndpoints(known).map((endpoint) => {
    const text = formatEndpoint(endpoint);
    const { state, reason, unconfirmedFailure, livenessOnly } = health.get(text) ?? trusted;
    const doubt = unconfirmedFailure ?? (livenessOnly === undefined ? '' : `liveness only: ${livenessOnly}`);
    return {
      endpoint,
      isLocal: observation.addresses.some(({ address }) => address === endpoint.address),
      state,
      reason: state === 'ready' ? doubt : reason,
      forMs: activity?.apiservers[text]?.forMs ?? null,
      flows: findPart(counts, text),
      share: findPart(shares, text),
    };
  });
}

function findPart(parts: ReadonlyMap<string, number> | null, text: string): number | null {
  return parts === null ? null : (parts.get(text) ?? 0);
}
