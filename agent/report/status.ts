import { findShares, type PlannedState } from '../decide/mode.ts';
import type { LoopObserver } from './events.ts';
import { type Assessment, type Decision, findOutage } from '../decide/decision.ts';
import { type Kernel, describeUnread } from '../../lib/kernel/port.ts';
import { type Config, isBalanced } from '../../config/options.ts';
import { findKeepalived, viewGuard, type KeepalivedView } from '../../lib/keepalived/read.ts';
import {
  locateKeepalivedFile,
  locateServingFile,
  type VrrpState,
  nameInstance,
} from '../../lib/keepalived/write.ts';
import { type Endpoint, formatEndpoint, parseEndpoint, sortEndpoints } from '../../lib/net.ts';
import { orElse } from '../../lib/errors.ts';
import { formatDocument } from '../../lib/text.ts';
import type { HealthState } from '../health/judge.ts';
import type { OwnerInfo } from '../../lib/http/singleton.ts';
import type { AgentActivity } from '../ask.ts';
import type { Drain, GuardView } from '../../lib/files.ts';
import { describeDrift } from '../../lib/dialect.ts';
import type { Health } from '../health/usable.ts';

/** Remembers what the loop last saw and how it fared, for whoever asks how things are. */
export class LastSync implements Partial<LoopObserver> {
  /** From the last sync that succeeded; null before the first. */
  assessment: Assessment | null = null;
  #hasConverged = false;
  #failure: string | null = null;

  /** Why the agent is not ready: no sync has yet found or written the correct rules. Null from then on, whatever happens. */
  get notReadyReason(): string | null {
    if (this.#hasConverged) return null;
    if (this.#failure !== null) return this.#failure;
    return this.assessment === null
      ? 'the first sync has not ended yet'
      : 'vipnat has not written its rules yet';
  }

  synced(assessment: Assessment): void {
    this.assessment = assessment;
  }

  readonly written = (): void => {
    this.#hasConverged = true;
  };
  readonly inSync = this.written;

  failure(error: unknown): void {
    this.#failure = error instanceof Error ? error.message : String(error);
  }
}

/** What a sync does not read: connections, and keepalived. */
export async function readLiveDetails(
  kernel: Pick<Kernel, 'countFlows'>,
  { vips, runDir }: Pick<Config, 'vips' | 'runDir'>,
  count: () => Promise<StatusFindings['flows']> = () => countConnections(kernel, vips),
): Promise<Pick<StatusFindings, 'flows' | 'keepalived'>> {
  const file = locateKeepalivedFile(runDir);
  const [flows, keepalived] = await Promise.all([
    count(),
    Promise.all(vips.map(async ({ address }) => [address, await findKeepalived(address, file)] as const)),
  ]);
  return { flows, keepalived: new Map(keepalived) };
}

/** The connections of each VIP to each apiserver; null where they cannot be counted, because all else is reported then. */
export async function countConnections(
  kernel: Pick<Kernel, 'countFlows'>,
  vips: Config['vips'],
): Promise<StatusFindings['flows']> {
  const count = async (vip: Config['vips'][number]) =>
    [formatEndpoint(vip), await orElse(kernel.countFlows(vip), null)] as const;
  return new Map(await Promise.all(vips.map(count)));
}

/** Whether the keepalived of the VIPs follows the track file. Never rejects. */
export async function viewTrackFile({ vips, runDir }: Pick<Config, 'vips' | 'runDir'>): Promise<GuardView> {
  const addresses = vips.map(({ address }) => address);
  return await viewGuard(locateServingFile(runDir), addresses, locateKeepalivedFile(runDir));
}

/** `status --json`, version 1: as `plan --json` without transactions, then how the VIPs are, then `more`. */
export function formatStatusJson(status: HostStatus, node: string, now: Date, more: object = {}): string {
  const { agent, assessment } = status;
  const host = toHostAnswer(assessment, node);
  return formatDocument({
    ...host,
    vips: status.vips.map((vip, index) => ({ ...host.vips[index], ...describeVip(vip, now) })),
    agent:
      agent === null
        ? { running: false, pid: null, since: null }
        : { running: true, pid: agent.pid, since: agent.since },
    drainedSince: status.drain?.since.toISOString() ?? null,
    vipStaysSince: status.drain?.vipStaysSince?.toISOString() ?? null,
    ...more,
  });
}

function describeVip(vip: VipStatus, now: Date): object {
  const { backends, keepalived } = vip;
  return {
    backends: backends.map(({ endpoint, isLocal, state, isUncorroborated, reason, forMs, flows, share }) => ({
      address: formatEndpoint(endpoint),
      local: isLocal,
      state,
      uncorroborated: isUncorroborated,
      reason,
      since: forMs === null ? null : new Date(now.getTime() - forMs).toISOString(),
      flows,
      share,
    })),
    keepalived: {
      running: isKeepalivedSeen(vip),
      vrid: keepalived.instance?.vrid ?? null,
      state: toVrrpState(vip),
      priority: keepalived.instance?.priority ?? null,
    },
  };
}

/** One apiserver as a VIP sees it. */
export interface BackendStatus {
  readonly endpoint: Endpoint;
  readonly isLocal: boolean;
  readonly state: HealthState;
  /** Whether it looks bad to this node, and stays in use as no other apiserver shows that the fault is its own. */
  readonly isUncorroborated: boolean;
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
  /** The state of its instance that keepalived reported to the agent, and for how long; null where keepalived reported none. */
  readonly vrrp: { readonly state: VrrpState; readonly forMs: number } | null;
}

/** All that `vipnat status` reports. */
export interface HostStatus {
  readonly assessment: Assessment;
  readonly agent: OwnerInfo | null;
  readonly activity: AgentActivity | null;
  readonly vips: readonly VipStatus[];
  /** The drain of this host; null where it is not drained. */
  readonly drain: Drain | null;
}

/** What was found in addition to the assessment. Not drained where that is left out. */
interface StatusFindings extends Pick<HostStatus, 'agent' | 'activity'>, Partial<Pick<HostStatus, 'drain'>> {
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

/** Whether a keepalived is seen on this host, or has reported the VIP's instance to the agent. */
export function isKeepalivedSeen({ keepalived, vrrp }: VipStatus): boolean {
  return vrrp !== null || keepalived.isRunning;
}

/**
 * The state of a VIP's instance: as keepalived says, else MASTER where the VIP and a keepalived are on this host. Null
 * where neither is known: a VIP that is not here can mean BACKUP, FAULT or STOP.
 */
export function toVrrpState({ isHeld, keepalived, vrrp }: VipStatus): VrrpState | null {
  if (vrrp !== null) return vrrp.state;
  return keepalived.isRunning && isHeld ? 'MASTER' : null;
}

/** Whether something needs a person: a VIP is not balanced, an apiserver is down, or the rules are not correct. */
export function isInTrouble({ assessment }: HostStatus): boolean {
  return (
    !assessment.decisions.every((one) => isBalanced(one) && findOutage(one, assessment.health) === null) ||
    describeDrift(assessment.plan).length > 0 ||
    assessment.missingSwitches.length > 0
  );
}

/** One that nobody has probed. */
const trusted: Health = { state: 'ready', reason: '', staleConnections: 'none' };

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
    const unconfirmed =
      unconfirmedFailure ?? (livenessOnly === undefined ? '' : `liveness only: ${livenessOnly}`);
    return {
      endpoint,
      isLocal: observation.addresses.some(({ address }) => address === endpoint.address),
      state,
      isUncorroborated: unconfirmedFailure !== undefined,
      reason: state === 'ready' ? unconfirmed : reason,
      forMs: activity?.apiservers[text]?.forMs ?? null,
      flows: findPart(counts, text),
      share: findPart(shares, text),
    };
  });
}

function findPart(parts: ReadonlyMap<string, number> | null, text: string): number | null {
  return parts === null ? null : (parts.get(text) ?? 0);
}

/**
 * What both `plan --json` and `status --json` say, version 1: fields are added, never renamed. What was seen and decided, without
 * what to write; `vips` in the order in which they were given.
 */
export function toHostAnswer(
  { decisions, plan, missingSwitches, sourceRoutes, sources, refused, observation }: PlannedState,
  node: string,
): Readonly<Record<string, unknown>> & { readonly vips: readonly object[] } {
  const { proxyMode, dialect, addresses } = observation;
  return {
    version: 1,
    node,
    kubeProxy: { mode: proxyMode.value, backend: dialect.value, reason: proxyMode.seenIn },
    vips: decisions.map(({ vip, mode, reason, clusterIp, backends, affinitySeconds }) => ({
      vip: formatEndpoint(vip),
      family: vip.family,
      held: addresses.some(({ address }) => address === vip.address),
      mode,
      reason,
      clusterIp,
      backends: backends.map(formatEndpoint),
      affinitySeconds,
      localSource: sources.get(vip.address) ?? null,
    })),
    inSync: plan.transactions.length === 0 && missingSwitches.length === 0,
    sysctls: missingSwitches.map(({ name, command }) => ({ name, value: '0', wanted: '1', command })),
    // What an agent does about this host's own connections to VIPs; not part of `inSync`.
    localRoutes: sourceRoutes.map(({ kind, route, reason, command }) => ({
      kind,
      ...route,
      reason,
      command,
    })),
    refused: [...new Set(refused)],
    unread: describeUnread(observation.unread),
  };
}
