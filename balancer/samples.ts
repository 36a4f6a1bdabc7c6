import { type Page, toText, createProbePages, type Answer } from '../lib/http/pages.ts';
import type { BalancerState } from './report.ts';
import { systemClock } from '../lib/clock.ts';
import {
  createSampler,
  processMetrics,
  describeMetric,
  listProcessSamples,
  readProcess,
  type MetricDefinition,
} from '../lib/telemetry/metrics.ts';
import { version } from '../lib/text.ts';
import { nodeModes } from '../lib/api/node.ts';
import { hangingMs, type BalancerActivity } from '../lib/api/balancer.ts';

/** What a balancer serves, and where it says how long changes take. */
interface BalancerPages {
  readonly pages: ReadonlyMap<string, Page>;
  readonly time: (seconds: number) => void;
}

/** A change of a Service takes some tens of milliseconds, and the first list of a large cluster a second. */
const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10];

/** Makes them, with the library that only who serves them loads. Without a state the balancer waits for another one to end. */
export async function createBalancerPages(readState: () => BalancerState | null): Promise<BalancerPages> {
  const startedAt = systemClock.date();
  const { contentType, print, registry } = await createSampler({ ...processMetrics, ...balancerMetrics });
  const { Histogram } = await import('prom-client');
  const { name, definition } = programmingDuration;
  const histogram = new Histogram({ ...describeMetric(name, definition, registry), buckets });
  const waiting = () => toText(503, 'not ready: it waits for another balancer on this host to end');
  const pages = createProbePages({
    metrics: {
      contentType,
      print: () => {
        const state = readState();
        const samples = state === null ? [] : listBalancerSamples(state);
        return print([...listProcessSamples(readProcess(version, startedAt)), ...samples]);
      },
    },
    health: () => judgeBalancerHealth(readState() ?? { behindMs: 0 }),
    readiness: () => {
      const state = readState();
      return state === null ? waiting() : judgeBalancerReadiness(state);
    },
  });
  return {
    pages,
    time: (seconds) => {
      histogram.observe(seconds);
    },
  };
}

/** What a balancer's metrics are, but for the one that is timed; docs/metrics.md has a row for each. */
export const balancerMetrics = {
  vipnat_balancer_services: {
    type: 'gauge',
    labels: [],
    help: "Number of Services in this node's tables",
  },
  vipnat_balancer_services_left: {
    type: 'gauge',
    labels: [],
    help: 'Number of Services that this node cannot take and leaves to kube-proxy; the log names them',
  },
  vipnat_balancer_table_elements: {
    type: 'gauge',
    labels: [],
    help: 'Number of elements in the sets and maps of both tables',
  },
  vipnat_balancer_mode: {
    type: 'gauge',
    labels: ['mode'],
    help: 'How this node balances: 1 for the mode in use, 0 for the others; absent before the first sync',
  },
  vipnat_balancer_seat_held: {
    type: 'gauge',
    labels: ['seat'],
    help: 'Whether this node holds a seat that it may hold',
  },
  vipnat_balancer_addresses_in_use: {
    type: 'gauge',
    labels: [],
    help: 'Number of addresses of pools that another host on the network of this node answers for',
  },
  vipnat_balancer_draining_endpoints: {
    type: 'gauge',
    labels: [],
    help: 'Number of endpoints that end and get no new connection of this node; one of several Services counts for each',
  },
  vipnat_balancer_draining_connections: {
    type: 'gauge',
    labels: [],
    help: 'Number of open TCP connections that this node still sends to these endpoints, as last counted',
  },
  vipnat_balancer_nodes_asked: {
    type: 'gauge',
    labels: [],
    help: 'Number of other nodes that this node asks whether they live',
  },
  vipnat_balancer_nodes_unresponsive: {
    type: 'gauge',
    labels: [],
    help: 'Number of other nodes that do not answer this node: their pods get no new connection from here',
  },
  vipnat_balancer_node_probes_total: {
    type: 'counter',
    labels: [],
    help: 'TCP connects by which this node asked whether other nodes live',
  },
  vipnat_balancer_api_followed: {
    type: 'gauge',
    labels: [],
    help: 'Whether the balancer follows the Kubernetes API; without it the tables stay as they are',
  },
  vipnat_balancer_kind_followed: {
    type: 'gauge',
    labels: ['kind'],
    help: 'Whether the balancer can read a kind of objects; 0 while each attempt fails',
  },
  vipnat_balancer_object_unreadable: {
    type: 'gauge',
    labels: ['kind', 'object'],
    help: 'Objects that cannot be read, and that the balancer leaves out: 1 for each, of the first 100',
  },
  vipnat_balancer_last_sync_timestamp_seconds: {
    type: 'gauge',
    labels: [],
    help: 'Time of the last sync without a failure, in seconds since 1970; absent before the first one',
  },
  vipnat_balancer_changes_total: {
    type: 'counter',
    labels: [],
    help: 'Changes of Services that the balancer wrote to its tables',
  },
  vipnat_balancer_repairs_total: {
    type: 'counter',
    labels: [],
    help: 'How often the balancer wrote a table again that another program had changed or removed',
  },
  vipnat_balancer_failures_total: {
    type: 'counter',
    labels: ['code'],
    help: 'Failed syncs, by the code of docs/errors.md',
  },
} as const satisfies Record<string, MetricDefinition>;

/** The one that is timed. */
export const programmingDuration = {
  name: 'vipnat_balancer_programming_duration_seconds',
  definition: {
    type: 'histogram',
    labels: [],
    help: 'Time from the event of a change to the change in the kernel',
  },
} as const satisfies { readonly name: string; readonly definition: MetricDefinition };

/** One value of one of them. */
interface BalancerSample {
  readonly name: keyof typeof balancerMetrics;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Each is a series. */
const maxNamed = 100;

/** All values as of a state. Pure. */
export function listBalancerSamples(state: BalancerState): BalancerSample[] {
  const { counts, mode, syncedAt } = state;
  const one = (name: BalancerSample['name'], value: number, labels: Record<string, string> = {}) => {
    return { name, labels, value };
  };
  return [
    one('vipnat_balancer_services', state.services),
    one('vipnat_balancer_services_left', state.left.length),
    one('vipnat_balancer_table_elements', state.elements),
    ...(mode === null
      ? []
      : nodeModes.map((each) => one('vipnat_balancer_mode', Number(each === mode), { mode: each }))),
    ...state.seats.map((seat) =>
      one('vipnat_balancer_seat_held', Number(state.held.includes(seat)), { seat }),
    ),
    one('vipnat_balancer_addresses_in_use', state.inUse.length),
    one('vipnat_balancer_draining_endpoints', state.draining.length),
    one(
      'vipnat_balancer_draining_connections',
      state.draining.reduce((sum, { connections }) => sum + (connections ?? 0), 0),
    ),
    one('vipnat_balancer_nodes_asked', state.nodes.asked),
    one('vipnat_balancer_nodes_unresponsive', state.outages.out.size),
    one('vipnat_balancer_node_probes_total', state.nodes.probes),
    one('vipnat_balancer_api_followed', Number(state.isFollowing)),
    ...[...state.kinds].map(([kind, isFollowed]) =>
      one('vipnat_balancer_kind_followed', Number(isFollowed), { kind }),
    ),
    ...state.unreadable.slice(0, maxNamed).map((names) => one('vipnat_balancer_object_unreadable', 1, names)),
    ...(syncedAt === null
      ? []
      : [one('vipnat_balancer_last_sync_timestamp_seconds', syncedAt.getTime() / 1000)]),
    one('vipnat_balancer_changes_total', counts.changes),
    one('vipnat_balancer_repairs_total', counts.repairs),
    ...[...counts.failures].map(([code, count]) => one('vipnat_balancer_failures_total', count, { code })),
  ];
}

/** What `/healthz` answers. Pure. */
export function judgeBalancerHealth({ behindMs }: Pick<BalancerState, 'behindMs'>): Answer {
  if (behindMs < hangingMs) return toText(200, 'ok');
  return toText(500, `the balancer hangs: its sync is ${Math.round(behindMs / 1000)} s behind`);
}

/** What `/readyz` answers: whether this node's table counts. The API away changes nothing of that. Pure. */
export function judgeBalancerReadiness({ mode }: Pick<BalancerState, 'mode'>): Answer {
  if (mode === null) return toText(503, 'not ready: the tables are not written yet');
  if (mode === 'direct') return toText(200, 'ok');
  return toText(503, `not ready: the tables do not count on this node (${mode})`);
}

/** What stays the same as long as it runs. */
interface BalancerPlace {
  /** As the API names it. */
  readonly node: string;
  /** What it shares with its keepalived. */
  readonly runDir: string;
}

/** What it answers there. Pure. */
export function toActivity(
  state: BalancerState,
  { node, runDir }: BalancerPlace,
  now: Date,
): BalancerActivity {
  const { mode, services, elements, seats, held, inUse, isFollowing, syncedAt, behindMs, counts } = state;
  const { outages, unheard, left, zone, endings } = state;
  return {
    ...{ node, runDir, mode, services, elements, isFollowing, behindMs },
    ...{ seats: [...seats], held: [...held], inUse: [...inUse] },
    syncedMsAgo: syncedAt === null ? null : Math.max(0, now.getTime() - syncedAt.getTime()),
    repairs: counts.repairs,
    ...{ out: [...outages.out], lost: [...outages.lost], unheard: [...unheard], left: [...left] },
    ...{ zone, ending: [...endings.keys()] },
  };
}
