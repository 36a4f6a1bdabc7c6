import { systemClock } from '../../lib/clock.ts';
import {
  createSampler,
  processMetrics,
  describeMetric,
  listProcessSamples,
  readProcess,
  type MetricDefinition,
} from '../../lib/telemetry/metrics.ts';
import { version } from '../../lib/text.ts';
import type { ClusterView } from '../cache/cache.ts';
import { families, countOfFamily } from '../../lib/net.ts';
import { countTaken } from '../allocate/choose-address.ts';
import { type Pod, isReadyButForUs, listClosedGates } from '../../lib/api/endpoints.ts';
import { isForUs } from '../../lib/api/service.ts';
import { getIngress } from '../cache/parts.ts';
import type { QueueStatistics } from '../../lib/queue.ts';
import type { Execution } from '../engine.ts';
import type { WebhookState } from '../webhook/webhook.ts';
import { type Page, createProbePages, toText } from '../../lib/http/pages.ts';
import { hangingMs } from '../../lib/telemetry/log.ts';

/** What a controller's metrics are printed from, and where it says how long drains take to start. */
export interface ControllerMeter {
  readonly metrics: ControllerPageSources['metrics'];
  readonly time: (seconds: number) => void;
}

/** A sleep before the end of a pod is some seconds: what takes longer than a minute is broken. */
const buckets = [0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60];

/** Makes it, with the library that only who serves metrics loads. */
export async function createControllerMeter(): Promise<ControllerMeter> {
  const startedAt = systemClock.date();
  const { contentType, print, registry } = await createSampler({ ...processMetrics, ...controllerMetrics });
  const { Histogram } = await import('prom-client');
  const { name, definition } = drainStart;
  const histogram = new Histogram({ ...describeMetric(name, definition, registry), buckets });
  return {
    metrics: {
      contentType,
      print: (state) =>
        print([...listProcessSamples(readProcess(version, startedAt)), ...listControllerSamples(state)]),
    },
    time: (seconds) => {
      histogram.observe(seconds);
    },
  };
}

/** What the controller's metrics are; docs/metrics.md has a row for each. */
export const controllerMetrics = {
  vipnat_controller_leading: {
    type: 'gauge',
    labels: [],
    help: 'Whether this controller leads: only the leader writes',
  },
  vipnat_controller_kind_followed: {
    type: 'gauge',
    labels: ['kind'],
    help: 'Whether the controller that leads can read a kind of objects; 0 while each attempt fails. It takes no step before it has read all',
  },
  vipnat_controller_admissions_total: {
    type: 'counter',
    labels: ['result'],
    help: 'Answers of the webhook: patched, unchanged, or failed (unreadable, or too many); absent without a webhook, like the next three',
  },
  vipnat_controller_webhook_serving: {
    type: 'gauge',
    labels: [],
    help: 'Whether this controller serves the webhook',
  },
  vipnat_controller_webhook_certificate_end_timestamp_seconds: {
    type: 'gauge',
    labels: [],
    help: "End of the webhook's certificate, in seconds since 1970",
  },
  vipnat_controller_webhook_trusted: {
    type: 'gauge',
    labels: [],
    help: "Whether API servers trust this certificate: the webhook's configuration has it",
  },
  vipnat_controller_queue_depth: {
    type: 'gauge',
    labels: [],
    help: 'Number of objects that wait for a step; absent while the controller does not lead, like all below',
  },
  vipnat_controller_queue_longest_wait_seconds: {
    type: 'gauge',
    labels: [],
    help: 'How long the object that has waited longest for a step has waited',
  },
  vipnat_controller_queue_delayed: {
    type: 'gauge',
    labels: [],
    help: 'Number of objects that wait for a moment: after a failure, or until a time',
  },
  vipnat_controller_retries_total: {
    type: 'counter',
    labels: [],
    help: 'Failed steps since this controller began to lead; the controller tries each again',
  },
  vipnat_controller_steps_total: {
    type: 'counter',
    labels: [],
    help: 'Steps since this controller began to lead, with steps that had nothing to write',
  },
  vipnat_controller_writes_total: {
    type: 'counter',
    labels: ['result'],
    help: 'Writes to the Kubernetes API: done, stale (another was first), late (it led no more), unknown (no answer), refused',
  },
  vipnat_controller_object_unreadable: {
    type: 'gauge',
    labels: ['kind', 'object'],
    help: 'Objects that cannot be read, and that the controller leaves out: 1 for each, of the first 100',
  },
  vipnat_controller_virtual_ips: {
    type: 'gauge',
    labels: ['state'],
    help: 'Number of virtual IPs that Services use, and of virtual IPs that wait to be given again (released)',
  },
  vipnat_controller_pool_addresses: {
    type: 'gauge',
    labels: ['pool', 'family'],
    help: 'Number of addresses of a pool',
  },
  vipnat_controller_pool_addresses_given: {
    type: 'gauge',
    labels: ['pool', 'family'],
    help: 'Number of addresses of a pool that no Service can get now. Addresses that wait to be given again do not count',
  },
  vipnat_controller_services_waiting: {
    type: 'gauge',
    labels: [],
    help: 'Number of Services of vipnat that have no address',
  },
  vipnat_controller_gates_waiting: {
    type: 'gauge',
    labels: [],
    help: 'Number of pods with ready containers whose readiness gate waits for nodes',
  },
  vipnat_controller_nodes_living: {
    type: 'gauge',
    labels: [],
    help: 'Number of nodes whose balancer renews its Lease',
  },
  vipnat_controller_device_ready: {
    type: 'gauge',
    labels: ['device'],
    help: 'Whether a device answers, has one active unit, and no changes of other users that are not applied',
  },
  vipnat_controller_device_balancers: {
    type: 'gauge',
    labels: ['device'],
    help: 'Number of Services of which a device has something',
  },
  vipnat_controller_device_balancers_failing: {
    type: 'gauge',
    labels: ['device'],
    help: 'Number of Services for which a device does not do what they ask for: their condition says why',
  },
  vipnat_controller_device_unit_in_sync: {
    type: 'gauge',
    labels: ['device', 'unit'],
    help: 'Whether a unit of a device says its role and is not behind. Absent while the device does not answer',
  },
  vipnat_controller_device_foreign_changes: {
    type: 'gauge',
    labels: ['device'],
    help: 'Number of changes of other users that wait on a device, 10 at most: vipnat changes nothing there until then',
  },
  vipnat_controller_device_members_draining: {
    type: 'gauge',
    labels: ['device'],
    help: 'Number of members on a device that get no new connections, 100 at most',
  },
  vipnat_controller_device_requests_total: {
    type: 'counter',
    labels: ['device'],
    help: 'Requests to the units of a device since this controller began to lead',
  },
} as const satisfies Record<string, MetricDefinition>;

/** The one that is timed. */
export const drainStart = {
  name: 'vipnat_controller_drain_start_duration_seconds',
  definition: {
    type: 'histogram',
    labels: [],
    help: 'Time from when the controller saw that a pod ends until no living node sends it new connections',
  },
} as const satisfies { readonly name: string; readonly definition: MetricDefinition };

/** The name of one of them. */
type ControllerMetric = keyof typeof controllerMetrics;

/** One value of one of them. */
interface ControllerSample {
  readonly name: ControllerMetric;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Each is a series. */
const maxNamed = 100;

/** All values as of a state. */
export function listControllerSamples({
  isLeading,
  statistics,
  view,
  writes,
  kinds,
  unreadable,
  webhook,
  deviceCalls,
}: ControllerState): ControllerSample[] {
  const one = (name: ControllerMetric, value: number, labels: Record<string, string> = {}) => {
    return { name, labels, value };
  };
  const used = [...(view?.virtualIps.values() ?? [])].filter(({ spec }) => spec.services.length > 0).length;
  return [
    one('vipnat_controller_leading', isLeading ? 1 : 0),
    ...[...kinds].map(([kind, isFollowed]) =>
      one('vipnat_controller_kind_followed', Number(isFollowed), { kind }),
    ),
    ...listWebhookSamples(webhook, one),
    ...(statistics === null
      ? []
      : [
          one('vipnat_controller_queue_depth', statistics.depth),
          one('vipnat_controller_queue_longest_wait_seconds', statistics.longestWaitMs / 1000),
          one('vipnat_controller_queue_delayed', statistics.delayed),
          one('vipnat_controller_retries_total', statistics.failures),
          one('vipnat_controller_steps_total', statistics.turns),
        ]),
    ...[...writes].map(([result, value]) => one('vipnat_controller_writes_total', value, { result })),
    ...unreadable.slice(0, maxNamed).map((names) => one('vipnat_controller_object_unreadable', 1, names)),
    ...(view === null
      ? []
      : [
          one('vipnat_controller_virtual_ips', used, { state: 'used' }),
          one('vipnat_controller_virtual_ips', view.virtualIps.size - used, { state: 'released' }),
          ...listPoolSamples(view, one),
          one('vipnat_controller_services_waiting', countWaiting(view)),
          one('vipnat_controller_gates_waiting', countGates(view)),
          one('vipnat_controller_nodes_living', view.livingReports.size),
          ...listDeviceSamples(view, deviceCalls, one),
        ]),
  ];
}

type One = (name: ControllerMetric, value: number, labels?: Record<string, string>) => ControllerSample;

function listWebhookSamples(webhook: ControllerState['webhook'], one: One): ControllerSample[] {
  if (webhook === null) return [];
  const { answers, isServing, untilMs, isTrusted } = webhook;
  return [
    ...[...answers].map(([result, value]) => one('vipnat_controller_admissions_total', value, { result })),
    one('vipnat_controller_webhook_serving', Number(isServing)),
    ...(untilMs === null
      ? []
      : [one('vipnat_controller_webhook_certificate_end_timestamp_seconds', untilMs / 1000)]),
    ...(isTrusted === null ? [] : [one('vipnat_controller_webhook_trusted', Number(isTrusted))]),
  ];
}

/** Of each family that a pool has. */
function listPoolSamples(view: ClusterView, one: One): ControllerSample[] {
  return [...view.judgedPools].flatMap(([pool, judged]) => {
    return families.flatMap((family) => {
      const count = countOfFamily(judged.ranges, family);
      const labels = { pool, family };
      return count === 0n
        ? []
        : [
            one('vipnat_controller_pool_addresses', Number(count), labels),
            one('vipnat_controller_pool_addresses_given', countTaken(judged, family, view), labels),
          ];
    });
  });
}

function listDeviceSamples(
  { devices, deviceReports, deviceBalancers }: ClusterView,
  deviceCalls: ControllerState['deviceCalls'],
  one: One,
): ControllerSample[] {
  const failing = [...deviceBalancers.values()].filter(({ problem }) => problem !== null);
  return [...devices.keys()].flatMap((device) => {
    const labels = { device };
    const { isReady, balancers, units, foreignChanges, draining } = deviceReports.get(device) ?? unseen;
    const count = failing.filter((balancer) => balancer.device === device).length;
    return [
      one('vipnat_controller_device_ready', Number(isReady), labels),
      one('vipnat_controller_device_balancers', balancers ?? 0, labels),
      one('vipnat_controller_device_balancers_failing', count, labels),
      ...units.map(({ unit, role, isInSync }) => {
        const isFine = ['active', 'standby'].includes(role) && isInSync !== false;
        return one('vipnat_controller_device_unit_in_sync', Number(isFine), { device, unit });
      }),
      one('vipnat_controller_device_foreign_changes', foreignChanges.length, labels),
      one('vipnat_controller_device_members_draining', draining.length, labels),
      one('vipnat_controller_device_requests_total', deviceCalls.get(device) ?? 0, labels),
    ];
  });
}

/** It was not read yet. */
const unseen = { isReady: false, balancers: null, units: [], foreignChanges: [], draining: [] };

function countGates({ pods, settings: { gateTypes } }: ClusterView): number {
  const isWaiting = (pod: Pod) =>
    isReadyButForUs(pod, gateTypes) &&
    listClosedGates(pod, gateTypes).length > 0 &&
    typeof pod.metadata.deletionTimestamp !== 'string';
  return [...pods.values()].filter(isWaiting).length;
}

function countWaiting({ services, settings }: ClusterView): number {
  const isWaiting = (service: Parameters<typeof isForUs>[0]) =>
    isForUs(service, settings.isDefaultClass) &&
    typeof service.metadata.deletionTimestamp !== 'string' &&
    getIngress(service).length === 0;
  return [...services.values()].filter(isWaiting).length;
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
  /** Objects that cannot be read, and are left out. */
  readonly unreadable: readonly { readonly kind: string; readonly object: string }[];
  /** Writes since the start, by what became of them. */
  readonly writes: ReadonlyMap<Execution['result'], number>;
  /** Null where it serves none. */
  readonly webhook: WebhookState | null;
}

/** Where the pages come from. */
interface ControllerPageSources {
  readonly state: () => ControllerState;
  readonly metrics: { readonly contentType: string; print(state: ControllerState): Promise<string> };
}

/** What a running controller serves, by path, as kubelet and Prometheus ask for it. */
export function createControllerPages({ state, metrics }: ControllerPageSources): ReadonlyMap<string, Page> {
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
