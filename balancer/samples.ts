import { type Page, toText, createProbePages, type Answer } from '../lib/http/pages.ts';
import type { BalancerState } from './report.ts';
import { toMetric, createStateMeter, type StateMetric } from '../lib/telemetry/metrics.ts';
import { nodeModes } from '../lib/api/node.ts';
import { hangingMs, type BalancerActivity } from '../lib/api/balancer.ts';

/** What a balancer serves, and where it says how long changes take. Without a state it waits for another one to end. */
export async function createBalancerPages(
  readState: () => BalancerState | null,
): Promise<{ readonly pages: ReadonlyMap<string, Page>; readonly time: (seconds: number) => void }> {
  const { contentType, print, time } = await createStateMeter(balancerMetrics, programmingDuration);
  const waiting = () => toText(503, 'not ready: it waits for another balancer on this host to end');
  const pages = createProbePages({
    metrics: { contentType, print: () => print(readState()) },
    health: () => judgeBalancerHealth(readState() ?? { behindMs: 0 }),
    readiness: () => {
      const state = readState();
      return state === null ? waiting() : judgeBalancerReadiness(state);
    },
  });
  return { pages, time };
}

const [gauge, counter] = [toMetric<BalancerState>('gauge'), toMetric<BalancerState>('counter')];

/** Each object that cannot be read is a series. */
const maxNamed = 100;

/** What a balancer's metrics are, and how each is read, but for the one that is timed. */
export const balancerMetrics = {
  vipnat_balancer_services: gauge("Number of Services in this node's tables", ({ services }) => services),
  vipnat_balancer_services_left: gauge(
    'Number of Services that this node cannot take and leaves to kube-proxy; the log names them',
    ({ left }) => left.length,
  ),
  vipnat_balancer_table_elements: gauge(
    'Number of elements in the sets and maps of both tables',
    ({ elements }) => elements,
  ),
  vipnat_balancer_memory_used_ratio: gauge(
    'Used part of the ten fullest memories of clients or connections; absent where the kernel does not count',
    ({ memories }) => [...memories].map(([memory, part]) => [part, memory]),
    'memory',
  ),
  vipnat_balancer_mode: gauge(
    'How this node balances: 1 for the mode in use, 0 for the others; absent before the first sync',
    ({ mode }) => (mode === null ? null : nodeModes.map((each) => [each === mode, each])),
    'mode',
  ),
  vipnat_balancer_seat_held: gauge(
    'Whether this node holds a seat that it may hold',
    ({ seats, held }) => seats.map((seat) => [held.includes(seat), seat]),
    'seat',
  ),
  vipnat_balancer_addresses_in_use: gauge(
    'Number of addresses of pools that another host on the network of this node answers for',
    ({ inUse }) => inUse.length,
  ),
  vipnat_balancer_watched: gauge(
    'Whether keepalived looks if the balancer runs; absent while that is not known',
    ({ isWatched }) => isWatched,
  ),
  vipnat_balancer_draining_endpoints: gauge(
    'Number of endpoints that end and get no new connection of this node. One of several Services counts for each',
    ({ draining }) => draining.length,
  ),
  vipnat_balancer_draining_connections: gauge(
    'Number of open TCP connections that this node still sends to these endpoints, as last counted',
    ({ draining }) => draining.reduce((sum, { connections }) => sum + (connections ?? 0), 0),
  ),
  vipnat_balancer_nodes_asked: gauge(
    'Number of other nodes that this node asks whether they live',
    ({ nodes }) => nodes.asked,
  ),
  vipnat_balancer_nodes_unresponsive: gauge(
    'Number of other nodes that do not answer this node: their pods get no new connection from here',
    ({ outages }) => outages.out.size,
  ),
  vipnat_balancer_node_probes_total: counter(
    'TCP connects by which this node asked whether other nodes live',
    ({ nodes }) => nodes.probes,
  ),
  vipnat_balancer_api_followed: gauge(
    'Whether the balancer follows the Kubernetes API; without it the tables stay as they are',
    ({ isFollowing }) => isFollowing,
  ),
  vipnat_balancer_kind_followed: gauge(
    'Whether the balancer can read a kind of objects; 0 while each attempt fails',
    ({ kinds }) => [...kinds].map(([kind, isFollowed]) => [isFollowed, kind]),
    'kind',
  ),
  vipnat_balancer_object_unreadable: gauge(
    'Objects that cannot be read, and that the balancer leaves out: 1 for each, of the first 100',
    ({ unreadable }) => unreadable.slice(0, maxNamed).map(({ kind, object }) => [1, kind, object]),
    'kind',
    'object',
  ),
  vipnat_balancer_last_sync_timestamp_seconds: gauge(
    'Time of the last sync without a failure, in seconds since 1970; absent before the first one',
    ({ syncedAt }) => (syncedAt === null ? null : syncedAt.getTime() / 1000),
  ),
  vipnat_balancer_changes_total: counter(
    'Changes of Services that the balancer wrote to its tables',
    ({ counts }) => counts.changes,
  ),
  vipnat_balancer_repairs_total: counter(
    'How often the balancer wrote a table again that another program had changed or removed',
    ({ counts }) => counts.repairs,
  ),
  vipnat_balancer_failures_total: counter(
    'Failed syncs, by the code of the error',
    ({ counts }) => [...counts.failures].map(([code, count]) => [count, code]),
    'code',
  ),
} as const satisfies Record<string, StateMetric<BalancerState>>;

/** The one that is timed. A change of a Service takes some tens of milliseconds, and the first list of a large cluster a second. */
export const programmingDuration = {
  name: 'vipnat_balancer_programming_duration_seconds',
  definition: {
    type: 'histogram' as const,
    labels: [],
    help: 'Time from the event of a change to the change in the kernel',
  },
  buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10],
};

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

/** As the alert has it. */
const nearlyFull = 0.9;

/** What it answers there. Pure. */
export function toActivity(
  state: BalancerState,
  { node, runDir }: Pick<BalancerActivity, 'node' | 'runDir'>,
  now: Date,
): BalancerActivity {
  const { mode, services, elements, seats, held, inUse, isFollowing, syncedAt, behindMs, counts } = state;
  const { outages, unheard, left, zone, endings, kept, isControllerAway, isWatched, memories } = state;
  return {
    ...{ node, runDir, mode, services, elements, isFollowing, behindMs },
    ...{ seats: [...seats], held: [...held], inUse: [...inUse] },
    syncedMsAgo: syncedAt === null ? null : Math.max(0, now.getTime() - syncedAt.getTime()),
    repairs: counts.repairs,
    ...{ out: [...outages.out], lost: [...outages.lost], unheard: [...unheard], left: [...left] },
    ...{ zone, ending: [...endings.keys()], kept: [...kept], isControllerAway, isWatched },
    fullMemories: [...memories].flatMap(([memory, part]) => (part > nearlyFull ? [memory] : [])),
  };
}
