import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { type Assessment } from '../decide/assess.ts';
import { type Decision, findShares } from '../decide/decision.ts';
import { ways } from '../decide/ways.ts';
import { type EndpointHealth, healthStates } from '../health/endpoint-health.ts';
import { type DrainState } from '../http/agent-drain.ts';
import { listProcessSamples, type ProcessState } from '../../lib/telemetry/process-samples.ts';
import { type LabelsOf, type SampledName, type Sample } from '../../lib/telemetry/catalogue.ts';

/** What an agent is like at a moment. Times are of day. */
export interface AgentState {
  /** The last look that succeeded, and when; null before the first. */
  readonly look: { readonly assessment: Assessment; readonly at: Date } | null;
  readonly apiservers: readonly EndpointHealth[];
  readonly isFighting: boolean;
  /** Whether the Kubernetes API is followed, and since when; null without credentials. */
  readonly api: { readonly isFollowed: boolean; readonly since: Date } | null;
  readonly keepalived: { readonly isServing: boolean; readonly isTold: boolean };
  /** Whether the apiservers could be kept for the next start, the last time that was tried. */
  readonly isSaved: boolean;
  /** Since when its host is drained, and since when the VIPs may stay all the same; null where not. */
  readonly drain: Pick<DrainState, 'since' | 'vipStaysSince'>;
  /** By address, of VIPs that this node holds and asks for: the MAC of another host that has it too, or null. */
  readonly otherHolders: ReadonlyMap<string, string | null>;
  /** By address, of IPv4 VIPs that this node holds: the source of its own connections to it. */
  readonly localSources: ReadonlyMap<string, string>;
}

/** All that is read from the state. Pure. */
export function listSamples(state: AgentState, process: ProcessState): Sample[] {
  const { look, api, keepalived } = state;
  return [
    ...listProcessSamples(process),
    sample('vipnat_waiting', {}, false),
    ...(look === null ? [] : listLookSamples(look.assessment, look.at, keepalived)),
    sample('vipnat_fight', {}, state.isFighting),
    sample('vipnat_state_file_current', {}, state.isSaved),
    sample('vipnat_host_drained', {}, state.drain.since !== null),
    sample('vipnat_host_drained_vip_stays', {}, state.drain.vipStaysSince !== null),
    ...(look === null ? [] : look.assessment.decisions.flatMap((one) => listHolderSamples(one, state))),
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

function listLookSamples(
  { plan, missingSwitches, decisions, observation }: Assessment,
  at: Date,
  { isServing, isTold }: AgentState['keepalived'],
): Sample[] {
  const differences = plan.tables.reduce((sum, { drift }) => sum + drift.length, 0);
  const addresses = new Set(observation.addresses.map(({ address }) => address));
  return [
    sample('vipnat_last_look_timestamp_seconds', {}, toSeconds(at)),
    sample('vipnat_rules_in_sync', {}, plan.transactions.length === 0 && missingSwitches.length === 0),
    sample('vipnat_rule_differences', {}, differences),
    ...decisions.flatMap((decision) => listVipSamples(decision, addresses)),
    sample('vipnat_can_serve', {}, isServing),
    sample('vipnat_track_file_current', {}, isTold),
  ];
}

function listVipSamples(decision: Decision, addresses: ReadonlySet<string>): Sample[] {
  const vip = formatEndpoint(decision.vip);
  return [
    ...ways.map((way) => sample('vipnat_vip_way', { vip, way }, decision.way === way)),
    sample('vipnat_vip_bypass', { vip }, decision.isBypass),
    sample('vipnat_vip_held', { vip }, addresses.has(decision.vip.address)),
    sample('vipnat_vip_apiservers', { vip }, decision.backends.length),
    ...[...(findShares(decision) ?? [])].map(([apiserver, share]) =>
      sample('vipnat_vip_apiserver_share', { vip, apiserver }, share),
    ),
  ];
}

/** What is only known of a VIP that this node holds. */
function listHolderSamples(
  { vip: { address }, vip }: Decision,
  { otherHolders, localSources }: Pick<AgentState, 'otherHolders' | 'localSources'>,
): Sample[] {
  const labels = { vip: formatEndpoint(vip) };
  const rival = otherHolders.get(address);
  const source = localSources.get(address);
  return [
    ...(rival === undefined ? [] : [sample('vipnat_vip_contested', labels, rival !== null)]),
    ...(source === undefined ? [] : [sample('vipnat_vip_local_clients_kept', labels, source !== address)]),
  ];
}

function listApiserverSamples({ endpoint, state: current, unconfirmedFailure }: EndpointHealth): Sample[] {
  const apiserver = formatEndpoint(endpoint);
  return [
    ...healthStates.map((state) => sample('vipnat_apiserver_state', { apiserver, state }, state === current)),
    sample('vipnat_apiserver_suspected', { apiserver }, unconfirmedFailure !== null),
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
