import {
  toMetric,
  createStateMeter,
  type StateMeter,
  type StateMetric,
  type Readings,
} from '../../lib/telemetry/metrics.ts';
import type { ClusterView } from '../cache/cache.ts';
import { families, countOfFamily, type Family } from '../../lib/net.ts';
import type { DeviceReport, JudgedPool } from '../cache/known.ts';
import { countTaken } from '../allocate/choose-address.ts';
import { type Pod, isServing, listClosedGates } from '../../lib/api/endpoints.ts';
import { getIngress, isDeleted, isServed } from '../cache/parts.ts';
import type { QueueStatistics } from '../../lib/queue.ts';
import type { Execution } from '../engine.ts';
import type { WebhookState } from '../webhook/webhook.ts';
import { type Page, createProbePages, toText } from '../../lib/http/pages.ts';
import { hangingMs } from '../../lib/telemetry/log.ts';

/** What a controller's metrics are printed with, and where it says how long drains take to start. */
export type ControllerMeter = StateMeter<ControllerState>;

/** Makes it. */
export function createControllerMeter(): Promise<ControllerMeter> {
  return createStateMeter(controllerMetrics, drainStart);
}

type Read = StateMetric<ControllerState>['read'];

const [gauge, counter] = [toMetric<ControllerState>('gauge'), toMetric<ControllerState>('counter')];

/** Each is a series. */
const maxNamed = 100;

/** What the controller's metrics are, and how each is read. */
export const controllerMetrics = {
  vipnat_controller_leading: gauge(
    'Whether this controller leads: only the leader writes',
    ({ isLeading }) => isLeading,
  ),
  vipnat_controller_kind_followed: gauge(
    'Whether the controller that leads can read a kind of objects; 0 while each attempt fails. It takes no step before it has read all',
    ({ kinds }) => [...kinds].map(([kind, isFollowed]) => [isFollowed, kind]),
    'kind',
  ),
  vipnat_controller_admissions_total: counter(
    'Answers of the webhook: patched, unchanged, or failed (unreadable, or too many). Absent without a webhook, like the next three',
    ({ webhook }) => [...(webhook?.answers ?? [])].map(([result, count]) => [count, result]),
    'result',
  ),
  vipnat_controller_webhook_serving: gauge(
    'Whether this controller serves the webhook',
    ({ webhook }) => webhook?.isServing,
  ),
  vipnat_controller_webhook_certificate_end_timestamp_seconds: gauge(
    "End of the webhook's certificate, in seconds since 1970",
    ({ webhook }) => toSeconds(webhook?.untilMs),
  ),
  vipnat_controller_webhook_trusted: gauge(
    "Whether API servers trust this certificate: the webhook's configuration has it",
    ({ webhook }) => webhook?.isTrusted,
  ),
  vipnat_controller_queue_depth: gauge(
    'Number of objects that wait for a step; absent while the controller does not lead, like all below',
    ({ statistics }) => statistics?.depth,
  ),
  vipnat_controller_queue_longest_wait_seconds: gauge(
    'How long the object that has waited longest for a step has waited',
    ({ statistics }) => toSeconds(statistics?.longestWaitMs),
  ),
  vipnat_controller_queue_delayed: gauge(
    'Number of objects that wait for a moment: after a failure, or until a time',
    ({ statistics }) => statistics?.delayed,
  ),
  vipnat_controller_retries_total: counter(
    'Failed steps since this controller began to lead; the controller tries each again',
    ({ statistics }) => statistics?.failures,
  ),
  vipnat_controller_steps_total: counter(
    'Steps since this controller began to lead, with steps that had nothing to write',
    ({ statistics }) => statistics?.turns,
  ),
  vipnat_controller_writes_total: counter(
    'Writes to the Kubernetes API: done, stale (another was first), late (it led no more), unknown (no answer), refused',
    ({ writes }) => [...writes].map(([result, count]) => [count, result]),
    'result',
  ),
  vipnat_controller_object_unreadable: gauge(
    'Objects that cannot be read, and that the controller leaves out: 1 for each, of the first 100',
    ({ unreadable }) => unreadable.slice(0, maxNamed).map(({ kind, object }) => [1, kind, object]),
    'kind',
    'object',
  ),
  vipnat_controller_virtual_ips: gauge(
    'Number of virtual IPs that Services use, and of virtual IPs that wait to be given again (released)',
    ({ view }) => (view === null ? null : listVirtualIps(view)),
    'state',
  ),
  vipnat_controller_pool_addresses: gauge(
    'Number of addresses of a pool',
    ofPools(({ ranges }, family) => Number(countOfFamily(ranges, family))),
    'pool',
    'family',
  ),
  vipnat_controller_pool_addresses_given: gauge(
    'Number of addresses of a pool that no Service can get now. Addresses that wait to be given again do not count',
    ofPools(countTaken),
    'pool',
    'family',
  ),
  vipnat_controller_services_waiting: gauge(
    'Number of Services of vipnat that have no address',
    ({ view }) => (view === null ? null : countWaiting(view)),
  ),
  vipnat_controller_gates_waiting: gauge(
    'Number of pods with ready containers whose readiness gate waits for nodes',
    ({ view }) => (view === null ? null : countGates(view)),
  ),
  vipnat_controller_nodes_living: gauge(
    'Number of nodes whose balancer renews its Lease',
    ({ view }) => view?.livingReports.size,
  ),
  vipnat_controller_device_ready: gauge(
    'Whether a device answers, has one active unit, and no changes of other users that are not applied',
    ofDevices(({ isReady }) => Number(isReady)),
    'device',
  ),
  vipnat_controller_device_balancers: gauge(
    'Number of Services of which a device has something',
    ofDevices(({ balancers }) => balancers ?? 0),
    'device',
  ),
  vipnat_controller_device_balancers_failing: gauge(
    'Number of Services for which a device does not do what they ask for: their condition says why',
    ofDevices((_, device, { view }) => countFailing(device, view)),
    'device',
  ),
  vipnat_controller_device_unit_in_sync: gauge(
    'Whether a unit of a device says its role and is not behind. Absent while the device does not answer',
    listUnits,
    'device',
    'unit',
  ),
  vipnat_controller_device_foreign_changes: gauge(
    'Number of changes of other users that wait on a device, 10 at most. vipnat changes nothing there until then',
    ofDevices(({ foreignChanges }) => foreignChanges.length),
    'device',
  ),
  vipnat_controller_device_members_draining: gauge(
    'Number of members on a device that get no new connections, 100 at most',
    ofDevices(({ draining }) => draining.length),
    'device',
  ),
  vipnat_controller_device_requests_total: counter(
    'Requests to the units of a device since this controller began to lead',
    ofDevices((_, device, { deviceCalls }) => deviceCalls.get(device) ?? 0),
    'device',
  ),
} as const satisfies Record<string, StateMetric<ControllerState>>;

/** The one that is timed. A sleep before the end of a pod is some seconds: what takes longer than a minute is broken. */
export const drainStart = {
  name: 'vipnat_controller_drain_start_duration_seconds',
  definition: {
    type: 'histogram' as const,
    labels: [],
    help: 'Time from when the controller saw that a pod ends until no living node sends it new connections',
  },
  buckets: [0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60],
};

function toSeconds(ms: number | null | undefined): number | null {
  return ms == null ? null : ms / 1000;
}

function listVirtualIps({ virtualIps }: ClusterView): Readings {
  const used = [...virtualIps.values()].filter(({ spec }) => spec.services.length > 0).length;
  return [
    [used, 'used'],
    [virtualIps.size - used, 'released'],
  ];
}

/** Of each family that a pool has. */
function ofPools(read: (pool: JudgedPool, family: Family, view: ClusterView) => number): Read {
  return ({ view }) =>
    [...(view?.judgedPools ?? [])].flatMap(([name, pool]) =>
      families
        .filter((family) => view !== null && countOfFamily(pool.ranges, family) > 0n)
        .map((family) => [view === null ? 0 : read(pool, family, view), name, family] as const),
    );
}

function ofDevices(read: (report: SeenReport, device: string, state: ControllerState) => number): Read {
  return (state) =>
    listReports(state).map(([device, report]) => [read(report, device, state), device] as const);
}

function listReports({ view }: ControllerState): (readonly [device: string, report: SeenReport])[] {
  const names = [...(view?.devices.keys() ?? [])];
  return names.map((device) => [device, view?.deviceReports.get(device) ?? unseen]);
}

function listUnits(state: ControllerState): Readings {
  return listReports(state).flatMap(([device, { units }]) =>
    units.map(({ unit, role, isInSync }) => {
      return [['active', 'standby'].includes(role) && isInSync !== false, device, unit] as const;
    }),
  );
}

function countFailing(device: string, view: ClusterView | null): number {
  const balancers = [...(view?.deviceBalancers.values() ?? [])];
  return balancers.filter((balancer) => balancer.device === device && balancer.problem !== null).length;
}

type SeenReport = Pick<DeviceReport, 'isReady' | 'balancers' | 'units' | 'foreignChanges' | 'draining'>;

/** It was not read yet. */
const unseen: SeenReport = { isReady: false, balancers: null, units: [], foreignChanges: [], draining: [] };

function countGates({ pods, nodes, settings: { gateTypes } }: ClusterView): number {
  const isWaiting = (pod: Pod) =>
    listClosedGates(pod, gateTypes).length > 0 && !isDeleted(pod) && isServing(pod, gateTypes, nodes);
  return [...pods.values()].filter(isWaiting).length;
}

function countWaiting({ services, settings }: ClusterView): number {
  return [...services.values()].filter(
    (service) => isServed(service, settings.isDefaultClass) && getIngress(service).length === 0,
  ).length;
}

/** How a controller does: what health and metrics say. */
export interface ControllerState {
  readonly isLeading: boolean;
  /** Who leads, as far as is known; null before anything is. */
  readonly leader: string | null;
  /** Each kind of objects that it reads while it leads, to whether it is not lost. */
  readonly kinds: ReadonlyMap<string, boolean>;
  /** Null while it does not lead, or before all objects are known. */
  readonly view: ClusterView | null;
  readonly statistics: QueueStatistics | null;
  /** Devices, to how many requests each got since this process leads. */
  readonly deviceCalls: ReadonlyMap<string, number>;
  readonly unreadable: readonly { readonly kind: string; readonly object: string }[];
  /** Writes since the start, by what became of them. */
  readonly writes: ReadonlyMap<Execution['result'], number>;
  /** Null where it serves none. */
  readonly webhook: WebhookState | null;
}

/** What a running controller serves, by path, as kubelet and Prometheus ask for it. */
export function createControllerPages(
  state: () => ControllerState,
  metrics: Pick<ControllerMeter, 'contentType' | 'print'>,
): ReadonlyMap<string, Page> {
  return createProbePages({
    metrics: { contentType: metrics.contentType, print: () => metrics.print(state()) },
    health: () => judgeHealth(state()),
    readiness: () => judgeReadiness(state()),
  });
}

/** For how long the step in progress has lasted. It is a few requests of at most 4 s each: one that takes two minutes hangs. */
export function getBehindMs({ statistics }: Pick<ControllerState, 'statistics'>): number {
  return statistics?.longestTurnMs ?? 0;
}

function judgeHealth(state: ControllerState): ReturnType<typeof toText> {
  const turnMs = getBehindMs(state);
  if (turnMs < hangingMs) return toText(200, 'ok');
  return toText(500, `the controller hangs: one step has taken ${Math.round(turnMs / 1000)} s`);
}

/** Who waits for its turn is ready to take over. */
function judgeReadiness({ isLeading, leader, view, webhook }: ControllerState): ReturnType<typeof toText> {
  if (isLeading && view === null)
    return toText(503, 'not ready: it leads, and does not know all objects yet');
  if (leader === null) return toText(503, 'not ready: it has not reached the API');
  // API servers ask only pods that are ready.
  if (webhook?.isServing === false) return toText(503, 'not ready: it does not serve the webhook yet');
  return toText(200, isLeading ? 'ok: it leads' : 'ok: it waits for another to end');
}
