import { findShares, describeWanted, modes } from '../decide/mode.ts';
import { errorCodes, VipnatError, findErrorCode } from '../../lib/errors.ts';
import type { LoopObserver } from './events.ts';
import {
  type Meter,
  type ProcessState,
  type Sample,
  listProcessSamples,
  type SampledName,
  type LabelsOf,
} from '../../lib/telemetry/metrics.ts';
import type { BalancingMode } from '../../config/options.ts';
import { type Endpoint, formatEndpoint } from '../../lib/net.ts';
import { type Assessment, type Decision, isDown } from '../decide/decision.ts';
import { isOutdated } from '../../lib/dialect.ts';
import { type EndpointHealth, healthStates } from '../health/judge.ts';
import type { DrainState } from '../ask.ts';
import type { ServingKeeper } from '../../lib/keepalived/write.ts';

const writeReasons = ['decision', 'repair', 'update'] as const;

/** Of what an agent can meet while it runs; the others end it before. */
const lastingCodes = errorCodes.filter((code) => new VipnatError(code, '').retry);

/** The code of a failure that is not vipnat's own. */
const unknownCode = findErrorCode(undefined);

/** Counts what the loop does and what becomes of the apiservers. What can happen counts from 0: a rate needs a first value. */
export class LoopMetrics implements Partial<LoopObserver> {
  readonly #meter: Meter;
  readonly #vipToMode = new Map<string, BalancingMode>();
  #reason: (typeof writeReasons)[number] = 'decision';
  /** What was last found in sync with. */
  #wanted = '';

  /** Of whatever fails. */
  readonly failure = (error: unknown): void => {
    this.#meter.count('vipnat_failures_total', { code: findErrorCode(error) });
  };
  readonly flowsNotReset = this.failure;
  readonly localClientsNotKept = this.failure;
  readonly notSwitched = this.failure;
  readonly notWritten = this.failure;

  constructor(meter: Meter, vips: readonly Endpoint[]) {
    this.#meter = meter;
    for (const reason of writeReasons) meter.count('vipnat_writes_total', { reason }, 0);
    for (const code of [...lastingCodes, unknownCode]) meter.count('vipnat_failures_total', { code }, 0);
    for (const vip of vips.map(formatEndpoint)) {
      meter.count('vipnat_mode_changes_total', { vip }, 0);
      meter.count('vipnat_flow_resets_total', { vip }, 0);
    }
  }

  synced({ health }: Pick<Assessment, 'health'>, tookMs: number): void {
    this.#meter.time(tookMs / 1000);
    for (const apiserver of health.keys())
      this.#meter.count('vipnat_apiserver_deaths_total', { apiserver }, 0);
  }

  drift(assessment: Assessment): void {
    const { plan } = assessment;
    const isDecided = this.#wanted !== describeWanted(assessment);
    const isRepair = plan.tables.some(({ drift }) => drift.some((one) => !isOutdated(one)));
    this.#reason = isDecided ? 'decision' : isRepair ? 'repair' : 'update';
  }

  written(): void {
    this.#meter.count('vipnat_writes_total', { reason: this.#reason });
  }

  inSync(assessment: Pick<Assessment, 'decisions' | 'answerers'>): void {
    this.#wanted = describeWanted(assessment);
    for (const decision of assessment.decisions) this.#noteMode(decision);
  }

  ruleConflict(): void {
    this.#meter.count('vipnat_repairs_postponed_total', {});
  }

  flowsReset(vip: Endpoint, _backend: Endpoint, count: number): void {
    this.#meter.count('vipnat_flow_resets_total', { vip: formatEndpoint(vip) }, count);
  }

  healthChanged(before: EndpointHealth, after: EndpointHealth): void {
    if (before.state === 'dead' || after.state !== 'dead') return;
    this.#meter.count('vipnat_apiserver_deaths_total', { apiserver: formatEndpoint(after.endpoint) });
  }

  #noteMode(decision: Decision): void {
    const vip = formatEndpoint(decision.vip);
    const before = this.#vipToMode.get(vip);
    this.#vipToMode.set(vip, decision.mode);
    if (before !== undefined && before !== decision.mode)
      this.#meter.count('vipnat_mode_changes_total', { vip });
  }
}

/** What an agent is like at a moment. Times are of day. */
export interface AgentState {
  /** The last sync that succeeded, and when; null before the first. */
  readonly lastSync: { readonly assessment: Assessment; readonly at: Date } | null;
  readonly apiservers: readonly EndpointHealth[];
  readonly hasRuleConflict: boolean;
  /** Whether the Kubernetes API is followed, and since when; null without credentials. */
  readonly api: { readonly isFollowed: boolean; readonly since: Date } | null;
  readonly keepalived: ServingKeeper['state'];
  /** Whether the apiservers could be kept for the next start, the last time that was tried. */
  readonly isSaved: boolean;
  /** Since when its host is drained, and since when the VIPs may stay all the same; null where not. */
  readonly drain: Pick<DrainState, 'since' | 'vipStaysSince'>;
  /** By address, of VIPs that this node holds and asks for: the MAC of another host that has it too, or null. */
  readonly duplicateOwners: ReadonlyMap<string, string | null>;
  /** By address, of IPv4 VIPs that this node holds: the source of its own connections to it. */
  readonly localSources: ReadonlyMap<string, string>;
}

/** All that is read from the state, and the connections of each VIP to each apiserver, as far as they are counted. Pure. */
export function listSamples(
  state: AgentState,
  process: ProcessState,
  connections: ReadonlyMap<string, ReadonlyMap<string, number> | null> = new Map(),
): Sample[] {
  const { lastSync, api, keepalived } = state;
  return [
    ...listProcessSamples(process),
    sample('vipnat_waiting', {}, false),
    ...(lastSync === null ? [] : listSyncSamples(lastSync.assessment, lastSync.at, keepalived)),
    sample('vipnat_rule_conflict', {}, state.hasRuleConflict),
    sample('vipnat_state_file_current', {}, state.isSaved),
    sample('vipnat_host_drained', {}, state.drain.since !== null),
    sample('vipnat_host_drained_vip_stays', {}, state.drain.vipStaysSince !== null),
    ...(lastSync?.assessment.decisions ?? []).flatMap((one) => listVipHolderSamples(one, state)),
    ...[...connections].flatMap(([vip, counts]) => listConnectionSamples(vip, counts, state)),
    ...state.apiservers.flatMap(listApiserverSamples),
    ...(api === null
      ? []
      : [
          sample('vipnat_api_followed', {}, api.isFollowed),
          sample('vipnat_api_followed_change_timestamp_seconds', {}, toSeconds(api.since)),
        ]),
  ];
}

/** All that there is of an agent that waits for another one to end. Pure. */
export function listWaitingSamples(process: ProcessState): Sample[] {
  return [...listProcessSamples(process), sample('vipnat_waiting', {}, true)];
}

function listSyncSamples(
  { plan, missingSwitches, decisions, observation, health }: Assessment,
  at: Date,
  { isServing, isReported, isWatched }: AgentState['keepalived'],
): Sample[] {
  const differences = plan.tables.reduce((sum, { drift }) => sum + drift.length, 0);
  const addresses = new Set(observation.addresses.map(({ address }) => address));
  return [
    sample('vipnat_last_sync_timestamp_seconds', {}, toSeconds(at)),
    sample('vipnat_rules_in_sync', {}, plan.transactions.length === 0 && missingSwitches.length === 0),
    sample('vipnat_rule_differences', {}, differences),
    ...decisions.flatMap((decision) => listVipSamples(decision, addresses, health)),
    sample('vipnat_can_serve', {}, isServing),
    sample('vipnat_track_file_current', {}, isReported),
    ...(isWatched === null ? [] : [sample('vipnat_track_file_followed', {}, isWatched)]),
  ];
}

function listVipSamples(
  decision: Decision,
  addresses: ReadonlySet<string>,
  health: Assessment['health'],
): Sample[] {
  const vip = formatEndpoint(decision.vip);
  const serving = decision.backends.filter((one) => {
    const found = health.get(formatEndpoint(one));
    return found === undefined || !isDown(found);
  });
  return [
    ...modes.map((mode) => sample('vipnat_vip_mode', { vip, mode }, decision.mode === mode)),
    sample('vipnat_vip_bypass', { vip }, decision.isBypass),
    sample('vipnat_vip_held', { vip }, addresses.has(decision.vip.address)),
    sample('vipnat_vip_apiservers', { vip }, serving.length),
    ...[...(findShares(decision) ?? [])].map(([apiserver, share]) =>
      sample('vipnat_vip_apiserver_share', { vip, apiserver }, share),
    ),
  ];
}

/** What is only known of a VIP that this node holds. */
function listVipHolderSamples(
  { vip: { address }, vip }: Decision,
  { duplicateOwners, localSources }: Pick<AgentState, 'duplicateOwners' | 'localSources'>,
): Sample[] {
  const labels = { vip: formatEndpoint(vip) };
  const duplicateMac = duplicateOwners.get(address);
  const source = localSources.get(address);
  return [
    ...(duplicateMac === undefined ? [] : [sample('vipnat_vip_conflict', labels, duplicateMac !== null)]),
    ...(source === undefined ? [] : [sample('vipnat_vip_local_clients_kept', labels, source !== address)]),
  ];
}

/** Apiservers without a connection have 0, too. */
function listConnectionSamples(
  vip: string,
  counts: ReadonlyMap<string, number> | null,
  { apiservers }: Pick<AgentState, 'apiservers'>,
): Sample[] {
  const known = apiservers.map(({ endpoint }) => formatEndpoint(endpoint));
  const ofFamily = known.filter((text) => text.startsWith('[') === vip.startsWith('['));
  const all = counts === null ? [] : new Set([...ofFamily, ...counts.keys()]);
  return [...all].map((apiserver) =>
    sample('vipnat_vip_connections', { vip, apiserver }, counts?.get(apiserver) ?? 0),
  );
}

function listApiserverSamples({ endpoint, state: current, unconfirmedFailure }: EndpointHealth): Sample[] {
  const apiserver = formatEndpoint(endpoint);
  return [
    ...healthStates.map((state) => sample('vipnat_apiserver_state', { apiserver, state }, state === current)),
    sample('vipnat_apiserver_uncorroborated', { apiserver }, unconfirmedFailure !== null),
  ];
}

function sample<Name extends SampledName>(
  name: Name,
  labels: LabelsOf<Name>,
  value: number | boolean,
): Sample {
  return { name, labels, value: Number(value) };
}

function toSeconds(date: Date): number {
  return date.getTime() / 1000;
}
