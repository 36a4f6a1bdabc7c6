/** What a metric is, as Prometheus has it. */
export interface MetricDefinition {
  readonly type: 'gauge' | 'counter' | 'histogram';
  readonly labels: readonly string[];
  /** One sentence without its full stop: the HELP line, and the meaning in docs/metrics.md. */
  readonly help: string;
}

/** Counted and timed where it happens, from the agent's start on, see meter.ts. */
export const counted = {
  vipnat_look_duration_seconds: {
    type: 'histogram',
    labels: [],
    help: 'How long each complete look at the host took; its count is the number of looks that succeeded',
  },
  vipnat_writes_total: {
    type: 'counter',
    labels: ['reason'],
    help: 'Writes to the rules: a decision changed, somebody else changed our rules (repair), or an older version wrote them (update)',
  },
  vipnat_repairs_postponed_total: {
    type: 'counter',
    labels: [],
    help: 'Repairs that were put off because too many came before them: somebody keeps undoing our rules',
  },
  vipnat_failures_total: {
    type: 'counter',
    labels: ['code'],
    help: 'Looks and writes that failed, and other failures for the first time in a row, by the code of docs/errors.md',
  },
  vipnat_way_changes_total: {
    type: 'counter',
    labels: ['vip'],
    help: 'How often a virtual IP went another way than before',
  },
  vipnat_apiserver_deaths_total: {
    type: 'counter',
    labels: ['apiserver'],
    help: 'How often an apiserver was found dead',
  },
  vipnat_flow_resets_total: {
    type: 'counter',
    labels: ['vip'],
    help: 'Connections of a virtual IP that hung on a dead apiserver and were reset',
  },
} as const satisfies Record<string, MetricDefinition & { type: 'counter' | 'histogram' }>;

/** Read from the agent's state when somebody asks, see samples.ts. What is not known has no sample. */
export const sampled = {
  vipnat_build_info: {
    type: 'gauge',
    labels: ['version', 'node_version'],
    help: 'Which vipnat runs, on which Node.js; always 1',
  },
  vipnat_waiting: {
    type: 'gauge',
    labels: [],
    help: 'Whether this agent waits for another agent of this host to end, and does nothing else until then',
  },
  vipnat_last_look_timestamp_seconds: {
    type: 'gauge',
    labels: [],
    help: 'When the last look succeeded, in seconds since 1970',
  },
  vipnat_rules_in_sync: {
    type: 'gauge',
    labels: [],
    help: 'Whether the last look found the rules and the forwarding switches as they should be',
  },
  vipnat_rule_differences: {
    type: 'gauge',
    labels: [],
    help: 'How many differences the last look found between the rules that are wanted and those that are there',
  },
  vipnat_fight: {
    type: 'gauge',
    labels: [],
    help: 'Whether somebody keeps undoing our rules, so that repairs wait; until nothing was undone for a minute',
  },
  vipnat_vip_way: {
    type: 'gauge',
    labels: ['vip', 'way'],
    help: 'Which way a virtual IP goes: 1 for that way, 0 for the others',
  },
  vipnat_vip_bypass: {
    type: 'gauge',
    labels: ['vip'],
    help: "Whether it goes direct because kube-proxy's apiservers are not those that answer",
  },
  vipnat_vip_held: {
    type: 'gauge',
    labels: ['vip'],
    help: 'Whether this node holds the virtual IP',
  },
  vipnat_vip_contested: {
    type: 'gauge',
    labels: ['vip'],
    help: 'Whether another host answers ARP for the virtual IP that this node holds; absent elsewhere and for IPv6',
  },
  vipnat_vip_local_clients_kept: {
    type: 'gauge',
    labels: ['vip'],
    help: "Whether this node's own connections to the virtual IP that it holds outlive its move, as they come from another address; absent elsewhere and for IPv6",
  },
  vipnat_vip_apiservers: {
    type: 'gauge',
    labels: ['vip'],
    help: 'To how many apiservers its new connections go from this node',
  },
  vipnat_apiserver_state: {
    type: 'gauge',
    labels: ['apiserver', 'state'],
    help: 'How this node finds an apiserver: 1 for ready, warming, draining or dead, 0 for the others',
  },
  vipnat_apiserver_suspected: {
    type: 'gauge',
    labels: ['apiserver'],
    help: "Whether it looks bad in a way that may be this node's own fault, so that it stays in use",
  },
  vipnat_api_followed: {
    type: 'gauge',
    labels: [],
    help: 'Whether the Kubernetes API is followed; absent without credentials',
  },
  vipnat_api_followed_change_timestamp_seconds: {
    type: 'gauge',
    labels: [],
    help: 'Since when vipnat_api_followed is as it is, in seconds since 1970',
  },
  vipnat_can_serve: {
    type: 'gauge',
    labels: [],
    help: 'Whether this node can serve a virtual IP, balanced or by its own apiserver',
  },
  vipnat_track_file_current: {
    type: 'gauge',
    labels: [],
    help: 'Whether the file that keepalived tracks says what vipnat_can_serve says',
  },
  vipnat_state_file_current: {
    type: 'gauge',
    labels: [],
    help: 'Whether the last attempt to keep the apiservers for the next start succeeded',
  },
  process_start_time_seconds: {
    type: 'gauge',
    labels: [],
    help: 'When the agent started, in seconds since 1970',
  },
  process_cpu_seconds_total: {
    type: 'counter',
    labels: [],
    help: "The agent's processor time, without the tools that it starts",
  },
  process_resident_memory_bytes: {
    type: 'gauge',
    labels: [],
    help: "The agent's resident memory, without the tools that it starts",
  },
} as const satisfies Record<string, MetricDefinition & { type: 'gauge' | 'counter' }>;

/** All metrics by name, in the order in which they are documented. */
export const metrics: Readonly<Record<string, MetricDefinition>> = { ...sampled, ...counted };

/** The name of a metric that is read from the state. */
export type SampledName = keyof typeof sampled;

/** The name of a metric that is counted. */
export type CounterName = {
  [Name in keyof typeof counted]: (typeof counted)[Name]['type'] extends 'counter' ? Name : never;
}[keyof typeof counted];

/** The name of a metric that is timed. */
export type HistogramName = Exclude<keyof typeof counted, CounterName>;

/** What a metric's labels can be given. */
export type LabelsOf<Name extends keyof typeof counted | SampledName> = Readonly<
  Record<(typeof counted & typeof sampled)[Name]['labels'][number], string>
>;

/** One value of one metric. */
export interface Sample {
  readonly name: SampledName;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}
