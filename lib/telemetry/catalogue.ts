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
    help: 'Duration of each complete sync; its count is the number of successful syncs',
  },
  vipnat_writes_total: {
    type: 'counter',
    labels: ['reason'],
    help: 'Writes of rules by reason: a new decision, a foreign change (repair), or rules of an older version (update)',
  },
  vipnat_repairs_postponed_total: {
    type: 'counter',
    labels: [],
    help: "Repairs that the agent postponed, because another program keeps undoing vipnat's rules",
  },
  vipnat_failures_total: {
    type: 'counter',
    labels: ['code'],
    help: 'Failed syncs and writes, and other failures when they begin, by the code of docs/errors.md',
  },
  vipnat_way_changes_total: {
    type: 'counter',
    labels: ['vip'],
    help: "Changes of a VIP's balancing mode",
  },
  vipnat_apiserver_deaths_total: {
    type: 'counter',
    labels: ['apiserver'],
    help: 'How often this node found an apiserver dead',
  },
  vipnat_flow_resets_total: {
    type: 'counter',
    labels: ['vip'],
    help: 'Stale connections of a VIP that vipnat reset',
  },
} as const satisfies Record<string, MetricDefinition & { type: 'counter' | 'histogram' }>;

/** Read from the agent's state when somebody asks, see samples.ts. What is not known has no sample. */
export const sampled = {
  vipnat_build_info: {
    type: 'gauge',
    labels: ['version', 'node_version'],
    help: 'Version of vipnat and of Node.js; always 1',
  },
  vipnat_waiting: {
    type: 'gauge',
    labels: [],
    help: 'Whether this agent waits for another agent on this host to end; it does nothing else meanwhile',
  },
  vipnat_last_look_timestamp_seconds: {
    type: 'gauge',
    labels: [],
    help: 'Time of the last successful sync, in seconds since 1970',
  },
  vipnat_rules_in_sync: {
    type: 'gauge',
    labels: [],
    help: 'Whether the last sync found the wanted rules in the kernel, and IP forwarding on',
  },
  vipnat_rule_differences: {
    type: 'gauge',
    labels: [],
    help: 'Number of differences between the wanted rules and the rules that the last sync found',
  },
  vipnat_fight: {
    type: 'gauge',
    labels: [],
    help: "Whether another program keeps undoing vipnat's rules; 0 again after a minute without a repair",
  },
  vipnat_vip_way: {
    type: 'gauge',
    labels: ['vip', 'way'],
    help: 'Balancing mode of a VIP: 1 for the mode in use, 0 for the others',
  },
  vipnat_vip_bypass: {
    type: 'gauge',
    labels: ['vip'],
    help: "Whether vipnat bypasses kube-proxy, because kube-proxy's list of apiservers is out of date",
  },
  vipnat_vip_held: {
    type: 'gauge',
    labels: ['vip'],
    help: 'Whether this node holds the VIP',
  },
  vipnat_vip_contested: {
    type: 'gauge',
    labels: ['vip'],
    help: 'Whether another host answers ARP for a VIP that this node holds; absent on other nodes and for IPv6',
  },
  vipnat_vip_local_clients_kept: {
    type: 'gauge',
    labels: ['vip'],
    help: 'Whether connections of local clients survive a move of the VIP; absent on other nodes and for IPv6',
  },
  vipnat_vip_apiservers: {
    type: 'gauge',
    labels: ['vip'],
    help: "Number of apiservers that get the VIP's new connections from this node",
  },
  vipnat_vip_apiserver_share: {
    type: 'gauge',
    labels: ['vip', 'apiserver'],
    help: "Part of a VIP's new connections that an apiserver gets, from 0 to 1; absent where kube-proxy chooses",
  },
  vipnat_apiserver_state: {
    type: 'gauge',
    labels: ['apiserver', 'state'],
    help: 'State of an apiserver as this node sees it: 1 for its state, 0 for the others',
  },
  vipnat_apiserver_suspected: {
    type: 'gauge',
    labels: ['apiserver'],
    help: "Whether the apiserver is suspected: its probes fail, but this node's network may be the cause",
  },
  vipnat_api_followed: {
    type: 'gauge',
    labels: [],
    help: 'Whether the agent follows the Kubernetes API; absent without credentials',
  },
  vipnat_api_followed_change_timestamp_seconds: {
    type: 'gauge',
    labels: [],
    help: 'Time of the last change of vipnat_api_followed, in seconds since 1970',
  },
  vipnat_can_serve: {
    type: 'gauge',
    labels: [],
    help: 'Whether this node can serve a VIP, by balancing or with its own apiserver',
  },
  vipnat_host_drained: {
    type: 'gauge',
    labels: [],
    help: 'Whether this host is drained',
  },
  vipnat_host_drained_vip_stays: {
    type: 'gauge',
    labels: [],
    help: 'Whether a drained host may hold the VIP, because no other host took it',
  },
  vipnat_track_file_current: {
    type: 'gauge',
    labels: [],
    help: "Whether keepalived's track file agrees with vipnat_can_serve",
  },
  vipnat_state_file_current: {
    type: 'gauge',
    labels: [],
    help: "Whether the agent's last write of its state file succeeded",
  },
  process_start_time_seconds: {
    type: 'gauge',
    labels: [],
    help: 'Start time of the agent, in seconds since 1970',
  },
  process_cpu_seconds_total: {
    type: 'counter',
    labels: [],
    help: 'Processor time of the agent, without the tools that it starts',
  },
  process_resident_memory_bytes: {
    type: 'gauge',
    labels: [],
    help: 'Resident memory of the agent, without the tools that it starts',
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
