import type { Registry, Counter, Gauge } from 'prom-client';
import { systemClock } from '../clock.ts';
import { version } from '../text.ts';

/** All metrics of an agent, as Prometheus reads them. */
export interface Metrics extends Pick<Sampler<SampledName>, 'contentType' | 'print'> {
  readonly meter: Meter;
}

/** A sync starts a few tools: tens of milliseconds on a quiet host, seconds where one waits for a lock. */
const syncBuckets = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Makes them, with the library that only who serves them loads. */
export async function createMetrics(): Promise<Metrics> {
  const { registry, contentType, print } = await createSampler(sampled);
  const { Counter, Histogram } = await import('prom-client');
  const { vipnat_sync_duration_seconds: duration, ...others } = counted;
  const syncOptions = describeMetric('vipnat_sync_duration_seconds', duration, registry);
  const histogram = new Histogram({ ...syncOptions, buckets: syncBuckets });
  const counters = new Map(
    Object.entries(others).map(([name, definition]) => [
      name,
      new Counter(describeMetric(name, definition, registry)),
    ]),
  );
  return {
    meter: {
      count: (name, labels, amount = 1) => counters.get(name)?.inc(labels, amount),
      time: (seconds) => {
        histogram.observe(seconds);
      },
    },
    contentType,
    print,
  };
}

/**
 * Where what happens is counted. The agent's is made by `createMetrics`; test/support/fakes/meter.ts has one that tests read.
 * Never throws, and costs next to nothing.
 */
export interface Meter {
  /** Adds to a counter, 1 unless an amount is given. */
  count<Name extends CounterName>(name: Name, labels: LabelsOf<Name>, amount?: number): void;
  time(seconds: number): void;
}

/** Counts nothing: nobody can ask. */
export const noMeter: Meter = { count: () => undefined, time: () => undefined };

interface AnySample<Name extends string = string> {
  readonly name: Name;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Metrics whose values are read from a state when somebody asks. */
interface Sampler<Name extends string> {
  readonly registry: Registry;
  /** How the text is to be called in an answer. */
  readonly contentType: string;
  /** The text for Prometheus, with these values. One at a time. */
  readonly print: (samples: readonly AnySample<Name>[]) => Promise<string>;
}

/** What the library wants to know of a metric. */
function describeMetric(name: string, { help, labels }: MetricDefinition, registry: Registry) {
  return { name, help, labelNames: [...labels], registers: [registry] };
}

/** Makes them, with the library that only who serves them loads. */
async function createSampler<Name extends string>(
  definitions: Readonly<Record<Name, MetricDefinition>>,
): Promise<Sampler<Name>> {
  const { Registry, Counter, Gauge } = await import('prom-client');
  const registry = new Registry();
  const values = new Map<string, Counter | Gauge>(
    Object.entries<MetricDefinition>(definitions).map(([name, definition]) => {
      const options = describeMetric(name, definition, registry);
      return [name, definition.type === 'counter' ? new Counter(options) : new Gauge(options)];
    }),
  );
  return {
    registry,
    contentType: registry.contentType,
    print: async (samples) => {
      for (const value of values.values()) {
        value.reset();
        // Also the value that the library gives to what has no labels: unknown is not 0.
        value.remove({});
      }
      for (const { name, labels, value } of samples) values.get(name)?.inc(labels, value);
      return await registry.metrics();
    },
  };
}

/** The values of a metric: one, or one for each row of labels; null and undefined where none is known. */
export type Readings =
  | (number | boolean | null | undefined)
  | readonly (readonly [value: number | boolean, ...labels: readonly string[]])[];

/** A metric, and how it is read from a state of its program. */
export interface StateMetric<State> extends MetricDefinition {
  readonly read: (state: State) => Readings;
}

/** Makes metrics of a kind. */
export function toMetric<State>(
  type: 'gauge' | 'counter',
): (help: string, read: (state: State) => Readings, ...labels: readonly string[]) => StateMetric<State> {
  return (help, read, ...labels) => ({ type, labels, help, read });
}

/** All values as of a state. Pure. */
export function listStateSamples<State, Name extends string>(
  definitions: Readonly<Record<Name, StateMetric<State>>>,
  state: State,
): AnySample<Name>[] {
  const entries = Object.entries(definitions) as [Name, StateMetric<State>][];
  return entries.flatMap(([name, { labels, read }]) => {
    const values = read(state) ?? [];
    const rows = typeof values === 'object' ? values : [[values] as const];
    return rows.map(([value, ...texts]) => ({
      name,
      labels: Object.fromEntries(labels.map((label, at) => [label, texts[at] ?? ''])),
      value: Number(value),
    }));
  });
}

/** What a program serves of its states and of its process, and where it says how long something took. */
export interface StateMeter<State> extends Pick<Sampler<string>, 'contentType'> {
  /** Null while there is no state. */
  readonly print: (state: State | null) => Promise<string>;
  readonly time: (seconds: number) => void;
}

/** Makes it, with the library that only who serves metrics loads. The second metric is timed where it happens. */
export async function createStateMeter<State>(
  definitions: Readonly<Record<string, StateMetric<State>>>,
  { name, definition, buckets }: { name: string; definition: MetricDefinition; buckets: number[] },
): Promise<StateMeter<State>> {
  const startedAt = systemClock.date();
  const { contentType, print, registry } = await createSampler<string>({ ...processMetrics, ...definitions });
  const { Histogram } = await import('prom-client');
  const histogram = new Histogram({ ...describeMetric(name, definition, registry), buckets });
  return {
    contentType,
    print: (state) => {
      const samples = state === null ? [] : listStateSamples(definitions, state);
      return print([...listProcessSamples(readProcess(version, startedAt)), ...samples]);
    },
    time: (seconds) => {
      histogram.observe(seconds);
    },
  };
}

interface MetricDefinition {
  readonly type: 'gauge' | 'counter' | 'histogram';
  readonly labels: readonly string[];
  /** One sentence without its full stop: the HELP line, and the meaning in docs/reference.md. */
  readonly help: string;
}

/** Makes a row of a kind: its help, and the labels that it has. */
const [gauge, counter, histogram] = [toRow('gauge'), toRow('counter'), toRow('histogram')];

function toRow<const Type extends MetricDefinition['type']>(type: Type) {
  return <const Labels extends readonly string[]>(help: string, ...labels: Labels) => ({
    type,
    labels,
    help,
  });
}

/** Counted and timed where it happens, from the agent's start on, see `Meter`. */
export const counted = {
  vipnat_sync_duration_seconds: histogram(
    'Duration of each complete sync; its count is the number of successful syncs',
  ),
  vipnat_writes_total: counter(
    'Writes of rules by reason: a new decision, a foreign change (repair), or rules of an older version (update)',
    'reason',
  ),
  vipnat_repairs_postponed_total: counter(
    "Repairs that the agent postponed, because another program keeps undoing vipnat's rules",
  ),
  vipnat_failures_total: counter(
    'Failed syncs and writes, and other failures when they begin, by the code of the error',
    'code',
  ),
  vipnat_mode_changes_total: counter("Changes of a VIP's balancing mode", 'vip'),
  vipnat_apiserver_deaths_total: counter('How often this node found an apiserver dead', 'apiserver'),
  vipnat_flow_resets_total: counter('Stale connections of a VIP that vipnat reset', 'vip'),
} as const satisfies Record<string, MetricDefinition & { type: 'counter' | 'histogram' }>;

/** Read from the agent's state when somebody asks, see `agent/report/metrics.ts`. What is not known has no sample. */
export const sampled = {
  vipnat_build_info: gauge('Version of vipnat and of Node.js; always 1', 'version', 'node_version'),
  vipnat_waiting: gauge(
    'Whether this agent waits for another agent on this host to end; it does nothing else meanwhile',
  ),
  vipnat_last_sync_timestamp_seconds: gauge('Time of the last successful sync, in seconds since 1970'),
  vipnat_rules_in_sync: gauge(
    'Whether the last sync found the wanted rules in the kernel, and IP forwarding on',
  ),
  vipnat_rule_differences: gauge(
    'Number of differences between the wanted rules and the rules that the last sync found',
  ),
  vipnat_rule_conflict: gauge(
    "Whether another program keeps undoing vipnat's rules; 0 again after a minute without a repair",
  ),
  vipnat_vip_mode: gauge('Balancing mode of a VIP: 1 for the mode in use, 0 for the others', 'vip', 'mode'),
  vipnat_vip_bypass: gauge(
    "Whether vipnat bypasses kube-proxy, because kube-proxy's list of apiservers is out of date",
    'vip',
  ),
  vipnat_vip_held: gauge('Whether this node holds the VIP', 'vip'),
  vipnat_vip_conflict: gauge(
    'Whether another host answers ARP for a VIP that this node holds; absent on other nodes and for IPv6',
    'vip',
  ),
  vipnat_vip_local_clients_kept: gauge(
    'Whether connections of local clients survive a move of the VIP; absent on other nodes and for IPv6',
    'vip',
  ),
  vipnat_vip_apiservers: gauge(
    "Number of apiservers that get the VIP's new connections from this node, without apiservers that are down",
    'vip',
  ),
  vipnat_vip_apiserver_share: gauge(
    "Part of a VIP's new connections that an apiserver gets, from 0 to 1; absent where kube-proxy chooses",
    'vip',
    'apiserver',
  ),
  vipnat_vip_connections: gauge(
    'Open connections to a VIP that this node sends to an apiserver; absent where not counted in time',
    'vip',
    'apiserver',
  ),
  vipnat_apiserver_state: gauge(
    'State of an apiserver as this node sees it: 1 for its state, 0 for the others',
    'apiserver',
    'state',
  ),
  vipnat_apiserver_uncorroborated: gauge(
    "Whether the apiserver is suspected: its probes fail, but this node's network may be the cause",
    'apiserver',
  ),
  vipnat_api_followed: gauge('Whether the agent follows the Kubernetes API; absent without credentials'),
  vipnat_api_followed_change_timestamp_seconds: gauge(
    'Time of the last change of vipnat_api_followed, in seconds since 1970',
  ),
  vipnat_can_serve: gauge('Whether this node can serve a VIP, by balancing or with its own apiserver'),
  vipnat_host_drained: gauge('Whether this host is drained'),
  vipnat_host_drained_vip_stays: gauge(
    'Whether a drained host may hold the VIP, because no other host took it',
  ),
  vipnat_track_file_current: gauge("Whether keepalived's track file agrees with vipnat_can_serve"),
  vipnat_track_file_followed: gauge(
    'Whether keepalived follows its track file; absent while that is not known',
  ),
  vipnat_state_file_current: gauge("Whether the agent's last write of its state file succeeded"),
  process_start_time_seconds: gauge('Start time of the agent, in seconds since 1970'),
  process_cpu_seconds_total: counter('Processor time of the agent, without the tools that it starts'),
  process_resident_memory_bytes: gauge('Resident memory of the agent, without the tools that it starts'),
} as const satisfies Record<string, MetricDefinition & { type: 'gauge' | 'counter' }>;

/** All metrics by name, in the order in which they are documented. */
export const metrics: Readonly<Record<string, MetricDefinition>> = { ...sampled, ...counted };

/** The name of a metric that is read from the state. */
export type SampledName = keyof typeof sampled;

type CounterName = Exclude<keyof typeof counted, 'vipnat_sync_duration_seconds'>;

/** What a metric's labels can be given. */
export type LabelsOf<Name extends keyof typeof counted | SampledName> = Readonly<
  Record<(typeof counted & typeof sampled)[Name]['labels'][number], string>
>;

/** One value of one metric. */
export type Sample = AnySample<SampledName>;

/** What a process is like at a moment. */
export interface ProcessState {
  readonly version: string;
  readonly nodeVersion: string;
  readonly startedAt: Date;
  readonly cpuSeconds: number;
  readonly residentBytes: number;
}

const processMetrics = {
  vipnat_build_info: sampled.vipnat_build_info,
  process_start_time_seconds: sampled.process_start_time_seconds,
  process_cpu_seconds_total: sampled.process_cpu_seconds_total,
  process_resident_memory_bytes: sampled.process_resident_memory_bytes,
};

type ProcessSample = Sample & { readonly name: keyof typeof processMetrics };

/** All values of a process. Pure. */
export function listProcessSamples({ version, nodeVersion, ...rest }: ProcessState): ProcessSample[] {
  return [
    sample('vipnat_build_info', 1, { version, node_version: nodeVersion }),
    sample('process_start_time_seconds', rest.startedAt.getTime() / 1000),
    sample('process_cpu_seconds_total', rest.cpuSeconds),
    sample('process_resident_memory_bytes', rest.residentBytes),
  ];
}

function sample(name: ProcessSample['name'], value: number, labels: ProcessSample['labels'] = {}) {
  return { name, labels, value };
}

/** This process as it is now. */
export function readProcess(version: string, startedAt: Date): ProcessState {
  const { user, system } = process.cpuUsage();
  return {
    version,
    nodeVersion: process.versions.node,
    startedAt,
    cpuSeconds: (user + system) / 1e6,
    residentBytes: process.memoryUsage.rss(),
  };
}
