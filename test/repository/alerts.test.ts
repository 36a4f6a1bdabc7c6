import { metrics as agentMetrics } from '../../lib/telemetry/metrics.ts';
import { controllerMetrics, drainStart } from '../../controller/report/metrics.ts';
import { balancerMetrics } from '../../balancer/samples.ts';
import { resolve, join } from 'node:path';
import { parse } from 'yaml';
import { readFileSync, writeFileSync } from 'node:fs';
import { test, expect, describe } from '@jest/globals';
import { makeFolder } from '../support/network/own-folder.ts';
import { runPromtool, describeWithPromtool } from '../support/documents/promtool.ts';
import { recordPages } from './metric-pages.ts';
import { commandNames } from '../../cli/table.ts';

interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: Readonly<Record<'summary' | 'description' | 'runbook_url', string>>;
}

/** Of agents, controllers and balancers. */
const metrics: typeof agentMetrics = {
  ...agentMetrics,
  ...controllerMetrics,
  [drainStart.name]: drainStart.definition,
  ...balancerMetrics,
};

const file = resolve('manifests/alerts.yaml');
const { groups } = parse(readFileSync(file, 'utf8')) as { groups: { rules: Alert[] }[] };
const alerts = groups.flatMap(({ rules }) => rules);

/**
 * Series of a case, their values a minute apart as promtool reads them (`1x20` is a 1 and 20 more of it), and after how many minutes
 * alerts are counted: `vip_held@m2 1x10, vip_mode[mode=direct] 0x10; 2`. The node is m1 unless it is named, and labels have the
 * values of `usual` unless they are given. Names go without `vipnat_`, and without the program.
 */
type Timeline = `${string}; ${number}`;

const usual: Readonly<Record<string, string>> = {
  ...{ vip: '10.0.0.50:6443', mode: 'passthrough', apiserver: '10.0.0.11:6443', code: 'TOOL_FAILED' },
  ...{ pool: 'default', family: 'ipv4', seat: 'default/0', device: 'edge', memory: 'clients' },
  ...{ version: '1', node_version: '24', job: 'vipnat' },
};

/** A series has the labels that the programs print. */
function readSeries(timeline: Timeline): readonly [series: object[], minutes: number] {
  const [texts = '', minutes] = timeline.split('; ');
  const series = texts.split(', ').map((text) => {
    const [, short = '', node = 'm1', given = '', values] =
      /^(\w+)(?:@(\w+))?(?:\[(.*)\])? (.*)$/.exec(text) ?? [];
    const name =
      ['', 'vipnat_', 'vipnat_controller_', 'vipnat_balancer_']
        .map((prefix) => prefix + short)
        .find((one) => one in metrics) ?? short;
    const own: Record<string, string> = {};
    for (const [, label = '', value = ''] of given.matchAll(/([^,]+)=([^,]+)/g)) own[label] = value;
    const isOwn = (label: string) =>
      label in { ...own, instance: 1, job: 1 } || metrics[name]?.labels.includes(label);
    const labels = Object.entries({ ...usual, instance: node, ...own }).filter(([label]) => isOwn(label));
    const pairs = labels.map(([label, value]) => `${label}="${value}"`);
    return { series: `${name}{${pairs.join()}}`, values };
  });
  return [series, Number(minutes)];
}

const failsOpen = 'apiserver_admission_webhook_fail_open_count';
const drainBuckets = (values: string) =>
  values.replaceAll(/(\S+) (\S+)/g, 'vipnat_controller_drain_start_duration_seconds_bucket[le=$1] $2');

/** While the alert fires, and while it does not; a minute apart, unless it takes a day. */
type Case = readonly [fires: Timeline, quiet: Timeline, stepMinutes?: number];

/** The case of every alert. */
const cases: Readonly<Record<string, Case>> = {
  VipnatVipNotBalanced: ['vip_mode 1x10; 2', 'vip_mode 0 1 0 0 1 0 0; 4'],
  VipnatVipHolderNotBalanced: [
    'vip_mode 1x10, vip_held 1x10; 2',
    'vip_mode 1x10, vip_held 0x10, vip_held@m2 1x10; 9',
  ],
  // While it moves, one look of two nodes each can see it.
  VipnatVipHeldTwice: [
    'vip_held 1x10, vip_held@m2 1x10, vip_held@m3 0x10; 2',
    'vip_held 1 1 0 0 0, vip_held@m2 0 1 1 1 1; 4',
  ],
  VipnatVipConflict: ['vip_conflict 0 1x10; 1', 'vip_conflict 0x10; 3'],
  VipnatVipHeldNowhere: ['vip_held 0x10, vip_held@m2 0x10; 2', 'vip_held 1 0 0 0, vip_held@m2 0 0 1 1; 3'],
  VipnatRulesNotInSync: ['rules_in_sync 0x10; 2', 'rules_in_sync 1x20; 20'],
  VipnatRuleConflict: ['rule_conflict 1x10; 0', 'rule_conflict 0x20; 20'],
  VipnatNoApiserverReady: [
    'vip_apiservers 3 0x10, vip_apiservers@m2 3 0x10; 3',
    // A node that is cut off, and one that knows none.
    'vip_apiservers 0x10, vip_apiservers@m2 3x10, vip_mode 1x10; 5',
  ],
  VipnatApiserverDead: [
    'apiserver_state[state=dead] 1x10; 2',
    'apiserver_state[state=dead] 0 1 0 0, apiserver_state[state=draining] 1x10; 3',
  ],
  VipnatApiserverDraining: [
    'apiserver_state[state=draining] 1x20; 11',
    'apiserver_state[state=draining] 1x9 0x10; 15',
  ],
  // Nobody has ever had more.
  VipnatOneApiserverLeft: ['vip_apiservers 3x12 1x12; 70', 'vip_apiservers 1x24; 110', 5],
  VipnatKubeProxyLags: ['vip_bypass 1x20; 11', 'vip_bypass 1x5 0x10; 12'],
  VipnatFailing: ['failures_total 0+1x20; 12', 'failures_total 0x5 3x20; 12'],
  VipnatNoSync: ['last_sync_timestamp_seconds 0x20; 13', 'last_sync_timestamp_seconds 0+60x20; 20'],
  VipnatAgentDown: ['up 0x5, up@m2 1x5; 3', 'up 1x5; 3'],
  VipnatAgentMissing: ['up 1x100, up@m2 1x96; 1470', 'up 1x100, up@m2 1x100; 1470', 15],
  VipnatTrackFileNotWritten: ['track_file_current 0x10; 3', 'track_file_current 1x20; 20'],
  VipnatKeepalivedDoesNotFollow: ['track_file_followed 0x10; 6', 'track_file_followed 1x20; 20'],
  VipnatHostDrained: ['host_drained 1x100; 1470', 'host_drained 1x90 0x10; 1470', 15],
  VipnatStateNotWritten: ['state_file_current 0x20; 16', 'state_file_current 1x20; 20'],
  VipnatApiNotFollowed: ['api_followed 0x20; 16', 'api_followed 1x20; 20'],
  VipnatPoolNearlyExhausted: [
    'pool_addresses 10x20, pool_addresses_given 10x20; 6',
    'pool_addresses 10x20, pool_addresses_given 9x20; 20',
  ],
  VipnatServiceWithoutAddress: ['services_waiting 2x20; 6', 'services_waiting 2x4 0x10; 12'],
  VipnatSeatHeldNowhere: [
    'seat_held 0x10, seat_held@m2 0x10; 3',
    'seat_held 1 0 0 0 0, seat_held@m2 0 0 1 1 1; 4',
  ],
  VipnatSeatHeldTwice: [
    'seat_held 1x10, seat_held@m2 1x10; 2',
    'seat_held 1 1 0 0 0, seat_held@m2 0 1 1 1 1; 4',
  ],
  VipnatBalancerNotProgramming: [
    'balancer_last_sync_timestamp_seconds 0x20; 5',
    'balancer_last_sync_timestamp_seconds 0+60x20; 20',
  ],
  VipnatServicesDown: ['up[job=vipnat-services] 0x5; 3', 'up[job=vipnat-services] 1x5, up@m2 0x5; 3'],
  VipnatBalancerMissing: ['nodes_living 5x12 4x12; 75', 'nodes_living 4x12 5x12; 110', 5],
  VipnatVersionsDiffer: [
    'build_info 1x40, build_info@m2[version=2] 1x40; 150',
    'build_info 1x40, build_info@m2 1x40; 150',
    5,
  ],
  VipnatNodeUnresponsive: ['nodes_unresponsive 1x10; 2', 'nodes_unresponsive 0 1 0 0 0; 4'],
  VipnatDrainStartsLate: [
    `${drainBuckets('2 0x30, 3 0+1x30, +Inf 0+1x30')}; 20`,
    `${drainBuckets('1 0+1x30, 2 0+1x30, +Inf 0+1x30')}; 30`,
  ],
  VipnatServicesLeft: ['services_left 2x10; 6', 'services_left 0 1 1 0 0 0 0; 6'],
  VipnatMemoryNearlyFull: ['memory_used_ratio 0.95x10; 6', 'memory_used_ratio 0.95 1 1 0.9 1 1 1; 6'],
  VipnatKindNotFollowed: [
    'controller_kind_followed[kind=Pod] 1x10, balancer_kind_followed[kind=Service] 0x10; 6',
    'controller_kind_followed[kind=Pod] 1x10, balancer_kind_followed[kind=Service] 1 0 0 0 1; 6',
  ],
  VipnatControllerWithoutLeader: [
    'leading 0x10, leading@m2 0x10; 3',
    'leading 1 1 0 0 0 0, leading@m2 0 0 0 1 1 1; 5',
  ],
  VipnatWebhookNotServed: [
    // One that API servers ask, and do not trust, is enough.
    'webhook_serving 1x10, webhook_trusted 0x10, webhook_trusted@m2 1x10; 6',
    // Where one does not serve, the other one is asked.
    'webhook_serving 0x10, webhook_serving@m2 1x10, webhook_trusted@m2 1x10; 9',
  ],
  VipnatWebhookFailsOpen: [
    `${failsOpen}[name=gates.vipnat.io,type=admit] 0x5 2x10; 7`,
    `${failsOpen}[name=gates.vipnat.io,type=admit] 2x20, ${failsOpen}[name=x,type=admit] 0+1x20; 15`,
  ],
  // The clock of promtool begins in 1970.
  VipnatWebhookCertificateEnds: [
    `webhook_certificate_end_timestamp_seconds ${59 * 86_400}x20; 75`,
    `webhook_certificate_end_timestamp_seconds ${240 * 86_400}x20; 75`,
    15,
  ],
  // What other users have changed has an alert of its own.
  VipnatDeviceNotReady: [
    'device_ready 0x9, device_foreign_changes 0x9; 6',
    'device_ready 0x9, device_foreign_changes 2x9; 6',
  ],
  VipnatDeviceForeignChanges: ['device_foreign_changes 2x20; 11', 'device_foreign_changes 2 2 0x20; 11'],
  VipnatDeviceUnitBehind: [
    'device_unit_in_sync[unit=a] 1x20, device_unit_in_sync[unit=b] 0x20; 11',
    'device_unit_in_sync[unit=a] 1x20, device_unit_in_sync[unit=b] 0 0 1x20; 11',
  ],
  VipnatDeviceNotReconciled: ['device_balancers_failing 3x20; 11', 'device_balancers_failing 3 3 0x20; 11'],
};

/** Where people have other series than one cluster with both features, by static targets: so many fire. */
const settings: readonly (readonly [where: string, alert: string, timeline: Timeline, count: number])[] = [
  ['on a cluster of Services', 'AgentMissing', 'nodes_living 3x100; 1470', 0],
  ['where all agents are gone', 'AgentMissing', 'up 1x96; 1470', 1],
  ['with a PodMonitor', 'AgentMissing', 'up[job=kube-system/vipnat] 1x96; 1470', 1],
  ['with a PodMonitor', 'AgentDown', 'up[job=kube-system/vipnat] 0x100; 60', 1],
  ['with a PodMonitor', 'ServicesDown', 'up[job=kube-system/vipnat-services] 0x100; 60', 1],
  ['of another job', 'AgentDown', 'up[job=kube-system/other-vipnat] 0x100; 60', 0],
  ...(
    [
      ['SeatHeldTwice', 'seat_held'],
      ['VipHeldTwice', 'vip_held'],
    ] as const
  ).map(([alert, held]) => {
    const both: Timeline = `${held}[cluster=a] 1x100, ${held}[cluster=b] 1x100; 60`;
    return ['with the same names in two clusters', alert, both, 0] as const;
  }),
  ...['leading[cluster=a] 0x100', 'services[cluster=a] 1x100'].map((gone) => {
    const timeline: Timeline = `${gone}, leading[cluster=b] 1x100; 60`;
    return ['in one of two clusters', 'ControllerWithoutLeader', timeline, 1] as const;
  }),
];

/** What is wrong in `recordPages`, without `Vipnat`. */
const faulty = [
  ...['VipConflict', 'ApiserverDead', 'KubeProxyLags', 'KeepalivedDoesNotFollow', 'HostDrained'],
  ...['ServiceWithoutAddress', 'SeatHeldNowhere', 'NodeUnresponsive', 'ServicesLeft', 'KindNotFollowed'],
  ...['WebhookCertificateEnds', 'DeviceNotReady', 'DeviceForeignChanges', 'DeviceUnitBehind'],
];

/** A test of promtool: so many alerts of that name fire at that time. */
function toTest(alert: string, timeline: Timeline, count: number, step: number): object {
  const [input_series, minutes] = readSeries(timeline);
  return {
    interval: `${step}m`,
    input_series,
    promql_expr_test: [
      {
        expr: `count(ALERTS{alertname="${alert}",alertstate="firing"}) or vector(0)`,
        eval_time: `${minutes}m`,
        exp_samples: [{ labels: '{}', value: count }],
      },
    ],
  };
}

const folder = makeFolder('alerts');

function runTests(tests: readonly object[], step: number, rules = file) {
  const testFile = join(folder, 'tests.yaml');
  // JSON is YAML too.
  writeFileSync(testFile, JSON.stringify({ rule_files: [rules], evaluation_interval: `${step}m`, tests }));
  return runPromtool(['test', 'rules', testFile]);
}

describe('each alert', () => {
  test('has a case that fires and one that does not', () => {
    expect(Object.keys(cases)).toEqual(alerts.map(({ alert }) => alert));
  });

  test.each(alerts)('$alert has a severity, says what it is, and names a command that helps', (alert) => {
    const { labels, annotations } = alert;
    expect(['warning', 'critical']).toContain(labels.severity);
    expect(annotations.summary).toMatch(/^\S.*[^.]$/);
    expect(annotations.runbook_url).toMatch(/^docs\/(trouble|operate|reference|services|services-\w+)\.md$/);
    const named = [
      ...annotations.description.matchAll(/\bvipnat (status|check|doctor|services|seats)\b/g),
    ].map(([, name]) => name);
    const isThere = (name = '') => commandNames.some((one) => one === name);
    expect(named.some(isThere)).toBe(true);
  });
});

describeWithPromtool('promtool', () => {
  test.each([1, 5, 15])('finds each alert firing and silent as its case says, in steps of %d min', (step) => {
    const own = Object.entries(cases).filter(([, [, , minutes = 1]]) => minutes === step);
    const tests = own.flatMap(([alert, [fires, quiet]]) => [
      toTest(alert, fires, 1, step),
      toTest(alert, quiet, 0, step),
    ]);
    expect(runTests(tests, step)).toEqual({ status: 0, output: expect.stringContaining('SUCCESS') });
  });

  test.each(settings)('%s finds %s as often as it shall', (_, alert, timeline, count) => {
    const one = toTest(`Vipnat${alert}`, timeline, count, 15);
    expect(runTests([one], 15)).toMatchObject({ status: 0 });
  });

  test('finds these alerts, and no other, over the pages of programs with faults', async () => {
    const input_series = Object.entries(await recordPages('cluster="c"')).map(([series, values]) => ({
      series,
      values,
    }));
    const expected = faulty.map((alert) => ({ labels: `{alertname="Vipnat${alert}"}`, value: 1 }));
    const query = { expr: 'group by (alertname) (ALERTS)', eval_time: '6m', exp_samples: expected };
    expect(runTests([{ interval: '1m', input_series, promql_expr_test: [query] }], 1)).toEqual({
      status: 0,
      output: expect.stringContaining('SUCCESS'),
    });
  });

  test('notices a rule that does not fire', () => {
    const broken = join(folder, 'broken.yaml');
    writeFileSync(broken, readFileSync(file, 'utf8').replace('rule_conflict == 1', 'rule_conflict == 2'));
    const one = toTest('VipnatRuleConflict', 'rule_conflict 1x10; 0', 1, 1);
    expect(runTests([one], 1, broken)).toMatchObject({ status: 1 });
  });
});
