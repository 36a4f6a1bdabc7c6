import { metrics as agentMetrics } from '../../lib/telemetry/metrics.ts';
import { controllerMetrics, drainStart } from '../../controller/report/metrics.ts';
import { balancerMetrics } from '../../balancer/samples.ts';
import { resolve, join } from 'node:path';
import { parse } from 'yaml';
import { readFileSync, writeFileSync } from 'node:fs';
import { test, expect, describe } from '@jest/globals';
import { readTable, readSection, unquote } from '../support/documents/table.ts';
import { makeFolder } from '../support/network/own-folder.ts';
import { runPromtool, describeWithPromtool } from './promtool.ts';
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

test('docs/metrics.md has a row for every alert, with its severity, in the order of the file', () => {
  const rows = readTable(readSection('docs/metrics.md', 'Every alert')).map(([name = '', severity]) => [
    unquote(name),
    severity,
  ]);
  expect(rows).toEqual(alerts.map(({ alert, labels }) => [alert, labels.severity]));
});

/** Series by their names, as promtool writes values that come a step apart: `1x20` is a 1 and 20 more of it. */
type Series = Readonly<Record<string, string>>;

interface Case {
  /** A minute, unless it takes a day. */
  readonly stepMinutes?: number;
  /** So many alerts fire after so many minutes. */
  readonly fires: readonly [Series, number, number];
  /** And none does. */
  readonly quiet: readonly [Series, number];
}

const on = (labels: string, node = 'm1') =>
  `{${labels === '' ? '' : `${labels},`}instance="${node}",job="vipnat"}`;
const vip = 'vip="10.0.0.50:6443"';
const up = (node: string) => `up${on('', node)}`;
const passthrough = `vipnat_vip_mode${on(`${vip},mode="passthrough"`)}`;
const held = (node: string) => `vipnat_vip_held${on(vip, node)}`;
const inUse = (node: string) => `vipnat_vip_apiservers${on(vip, node)}`;
const apiserver = (state: string) =>
  `vipnat_apiserver_state${on(`apiserver="10.0.0.11:6443",state="${state}"`)}`;
const pool = (what: string) => `vipnat_controller_pool_${what}${on('pool="default",family="ipv4"')}`;
const seat = (node: string) => `vipnat_balancer_seat_held${on('seat="default/0"', node)}`;
const leading = (node: string) => `vipnat_controller_leading${on('', node)}`;
const device = (what: string, labels = '') =>
  `vipnat_controller_device_${what}${on(`device="edge"${labels}`)}`;
const unit = (name: string) => device('unit_in_sync', `,unit="${name}"`);
const upTo = (le: string) => `vipnat_controller_drain_start_duration_seconds_bucket${on(`le="${le}"`)}`;
const kind = (program: string, name: string) => `vipnat_${program}_kind_followed${on(`kind="${name}"`)}`;
/** `serving/m1` of the node m1. */
const webhook = (name: string) => {
  const [what = '', node] = name.split('/');
  return `vipnat_controller_webhook_${what}${on('', node)}`;
};
/** `0.1.0/m1`: of the node m1. */
const version = (name: string) => {
  const [one = '', node] = name.split('/');
  return `vipnat_build_info${on(`version="${one}",node_version="24"`, node)}`;
};
const ofController = (what: string) => `vipnat_controller_${what}${on('')}`;
const ofBalancer = (what: string) => `vipnat_balancer_${what}${on('')}`;
const memory = `vipnat_balancer_memory_used_ratio${on('memory="clients"')}`;
const failsOpen = (name: string) =>
  `apiserver_admission_webhook_fail_open_count{name="${name}",type="admit",instance="m1",job="apiserver"}`;
/** The values of one series while the alert fires, those while it does not, and after how many minutes. */
const one = (
  series: string,
  [firing, afterMinutes]: readonly [string, number],
  [quiet, quietMinutes]: readonly [string, number],
  stepMinutes = 1,
): Case => ({
  stepMinutes,
  fires: [{ [series]: firing }, afterMinutes, 1],
  quiet: [{ [series]: quiet }, quietMinutes],
});
/** `m1 0x10, m2 1 0; 2`: values of series that a function names, and after how many minutes. */
const readSeries = (toName: (name: string) => string, text: string): Case['quiet'] => {
  const [values = '', minutes] = text.split('; ');
  const pairs = values.split(', ').map((one) => /^(\S+) (.*)$/.exec(one) ?? []);
  const series = pairs.map(([, name = '', value = '']) => [toName(name), value] as const);
  return [Object.fromEntries(series), Number(minutes)];
};
/** The alert fires with the first values, and does not with the others. */
const of = (toName: (name: string) => string, firing: string, quiet: string, stepMinutes = 1): Case => ({
  ...{ stepMinutes, fires: [...readSeries(toName, firing), 1], quiet: readSeries(toName, quiet) },
});
const simple = (name: string, value: '0' | '1', minutes: number): Case =>
  one(`${name}${on('')}`, [`${value}x60`, minutes], [`${value === '0' ? '1' : '0'}x20`, 20]);

/** The case of every alert. */
const cases: Readonly<Record<string, Case>> = {
  VipnatVipNotBalanced: one(passthrough, ['1x10', 2], ['0 1 0 0 1 0 0', 4]),
  VipnatVipHolderNotBalanced: {
    fires: [{ [passthrough]: '1x10', [held('m1')]: '1x10' }, 2, 1],
    quiet: [{ [passthrough]: '1x10', [held('m1')]: '0x10', [held('m2')]: '1x10' }, 9],
  },
  // While it moves, one look of two nodes each can see it.
  VipnatVipHeldTwice: of(held, 'm1 1x10, m2 1x10, m3 0x10; 2', 'm1 1 1 0 0 0, m2 0 1 1 1 1; 4'),
  VipnatVipConflict: one(`vipnat_vip_conflict${on(vip)}`, ['0 1x10', 1], ['0x10', 3]),
  VipnatVipHeldNowhere: of(held, 'm1 0x10, m2 0x10; 2', 'm1 1 0 0 0, m2 0 0 1 1; 3'),
  VipnatRulesNotInSync: simple('vipnat_rules_in_sync', '0', 2),
  VipnatRuleConflict: simple('vipnat_rule_conflict', '1', 0),
  VipnatNoApiserverReady: {
    fires: [{ [inUse('m1')]: '3 0x10', [inUse('m2')]: '3 0x10' }, 3, 1],
    // A node that is cut off, and one that knows none.
    quiet: [{ [inUse('m1')]: '0x10', [inUse('m2')]: '3x10', [passthrough]: '1x10' }, 5],
  },
  VipnatApiserverDead: of(apiserver, 'dead 1x10; 2', 'dead 0 1 0 0, draining 1x10; 3'),
  VipnatApiserverDraining: one(apiserver('draining'), ['1x20', 11], ['1x9 0x10', 15]),
  // Nobody has ever had more.
  VipnatOneApiserverLeft: one(`vipnat_vip_apiservers${on(vip)}`, ['3x12 1x12', 70], ['1x24', 110], 5),
  VipnatKubeProxyLags: one(`vipnat_vip_bypass${on(vip)}`, ['1x20', 11], ['1x5 0x10', 12]),
  VipnatFailing: one(`vipnat_failures_total${on('code="TOOL_FAILED"')}`, ['0+1x20', 12], ['0x5 3x20', 12]),
  VipnatNoSync: one(`vipnat_last_sync_timestamp_seconds${on('')}`, ['0x20', 13], ['0+60x20', 20]),
  VipnatAgentDown: of(up, 'm1 0x5, m2 1x5; 3', 'm1 1x5; 3'),
  VipnatAgentMissing: of(up, 'm1 1x100, m2 1x96; 1470', 'm1 1x100, m2 1x100; 1470', 15),
  VipnatTrackFileNotWritten: simple('vipnat_track_file_current', '0', 3),
  VipnatKeepalivedDoesNotFollow: simple('vipnat_track_file_followed', '0', 6),
  VipnatHostDrained: one(`vipnat_host_drained${on('')}`, ['1x100', 1470], ['1x90 0x10', 1470], 15),
  VipnatStateNotWritten: simple('vipnat_state_file_current', '0', 16),
  VipnatApiNotFollowed: simple('vipnat_api_followed', '0', 16),
  VipnatPoolNearlyExhausted: of(
    pool,
    'addresses 10x20, addresses_given 10x20; 6',
    'addresses 10x20, addresses_given 9x20; 20',
  ),
  VipnatServiceWithoutAddress: of(ofController, 'services_waiting 2x20; 6', 'services_waiting 2x4 0x10; 12'),
  VipnatSeatHeldNowhere: of(seat, 'm1 0x10, m2 0x10; 3', 'm1 1 0 0 0 0, m2 0 0 1 1 1; 4'),
  VipnatSeatHeldTwice: of(seat, 'm1 1x10, m2 1x10; 2', 'm1 1 1 0 0 0, m2 0 1 1 1 1; 4'),
  VipnatBalancerNotProgramming: one(ofBalancer('last_sync_timestamp_seconds'), ['0x20', 5], ['0+60x20', 20]),
  VipnatServicesDown: {
    fires: [{ 'up{instance="w1",job="vipnat-services"}': '0x5' }, 3, 1],
    quiet: [{ 'up{instance="w1",job="vipnat-services"}': '1x5', [up('m1')]: '0x5' }, 3],
  },
  VipnatBalancerMissing: one(ofController('nodes_living'), ['5x12 4x12', 75], ['4x12 5x12', 110], 5),
  VipnatVersionsDiffer: of(version, '1/m1 1x40, 2/m2 1x40; 150', '1/m1 1x40, 1/m2 1x40; 150', 5),
  VipnatNodeUnresponsive: one(ofBalancer('nodes_unresponsive'), ['1x10', 2], ['0 1 0 0 0', 4]),
  VipnatDrainStartsLate: of(upTo, '2 0x30, 3 0+1x30, +Inf 0+1x30; 20', '1 0+1x30, 2 0+1x30, +Inf 0+1x30; 30'),
  VipnatServicesLeft: one(ofBalancer('services_left'), ['2x10', 6], ['0 1 1 0 0 0 0', 6]),
  VipnatMemoryNearlyFull: one(memory, ['0.95x10', 6], ['0.95 1 1 0.9 1 1 1', 6]),
  VipnatKindNotFollowed: {
    fires: [{ [kind('controller', 'Pod')]: '1x10', [kind('balancer', 'Service')]: '0x10' }, 6, 1],
    quiet: [{ [kind('controller', 'Pod')]: '1x10', [kind('balancer', 'Service')]: '1 0 0 0 1' }, 6],
  },
  VipnatControllerWithoutLeader: of(leading, 'm1 0x10, m2 0x10; 3', 'm1 1 1 0 0 0 0, m2 0 0 0 1 1 1; 5'),
  VipnatWebhookNotServed: of(
    webhook,
    // One that API servers ask, and do not trust, is enough.
    'serving/m1 1x10, trusted/m1 0x10, trusted/m2 1x10; 6',
    // Where one does not serve, the other one is asked.
    'serving/m1 0x10, serving/m2 1x10, trusted/m2 1x10; 9',
  ),
  VipnatWebhookFailsOpen: of(failsOpen, 'gates.vipnat.io 0x5 2x10; 7', 'gates.vipnat.io 2x20, x 0+1x20; 15'),
  // The clock of promtool begins in 1970.
  VipnatWebhookCertificateEnds: of(
    webhook,
    `certificate_end_timestamp_seconds/m1 ${59 * 86_400}x20; 75`,
    `certificate_end_timestamp_seconds/m1 ${240 * 86_400}x20; 75`,
    15,
  ),
  // What other users have changed has an alert of its own.
  VipnatDeviceNotReady: of(device, 'ready 0x9, foreign_changes 0x9; 6', 'ready 0x9, foreign_changes 2x9; 6'),
  VipnatDeviceForeignChanges: one(device('foreign_changes'), ['2x20', 11], ['2 2 0x20', 11]),
  VipnatDeviceUnitBehind: of(unit, 'a 1x20, b 0x20; 11', 'a 1x20, b 0 0 1x20; 11'),
  VipnatDeviceNotReconciled: one(device('balancers_failing'), ['3x20', 11], ['3 3 0x20', 11]),
};

const inCluster = (series: string, cluster: string) => series.replace(/\}$/, `,cluster="${cluster}"}`);
/** As a PodMonitor names the job. */
const monitored = (node: string, job: string) => `up{instance="${node}",job="kube-system/${job}"}`;

/** Where people have other series than one cluster with both features, by static targets: so many fire after so many minutes. */
const settings: readonly (readonly [where: string, alert: string, ...Case['fires']])[] = [
  ['on a cluster of Services', 'VipnatAgentMissing', { [ofController('nodes_living')]: '3x100' }, 1470, 0],
  ['where all agents are gone', 'VipnatAgentMissing', { [up('m1')]: '1x96' }, 1470, 1],
  ['with a PodMonitor', 'VipnatAgentMissing', { [monitored('m1', 'vipnat')]: '1x96' }, 1470, 1],
  ['with a PodMonitor', 'VipnatAgentDown', { [monitored('m1', 'vipnat')]: '0x100' }, 60, 1],
  ['with a PodMonitor', 'VipnatServicesDown', { [monitored('w1', 'vipnat-services')]: '0x100' }, 60, 1],
  ['of another job', 'VipnatAgentDown', { [monitored('m1', 'other-vipnat')]: '0x100' }, 60, 0],
  ...(
    [
      ['VipnatSeatHeldTwice', seat('m1')],
      ['VipnatVipHeldTwice', held('m1')],
    ] as const
  ).map(([alert, one]) => {
    const both = { [inCluster(one, 'a')]: '1x100', [inCluster(one, 'b')]: '1x100' };
    return ['with the same names in two clusters', alert, both, 60, 0] as const;
  }),
  [
    'in one of two clusters',
    'VipnatControllerWithoutLeader',
    { [inCluster(leading('m1'), 'a')]: '0x100', [inCluster(leading('m1'), 'b')]: '1x100' },
    60,
    1,
  ],
  [
    'where controllers are gone in one of two clusters',
    'VipnatControllerWithoutLeader',
    {
      [inCluster(leading('m1'), 'b')]: '1x100',
      [inCluster(ofBalancer('services'), 'a')]: '1x100',
    },
    60,
    1,
  ],
];

/** What is wrong in `recordPages`, without `Vipnat`. */
const faulty = [
  ...['VipConflict', 'ApiserverDead', 'KubeProxyLags', 'KeepalivedDoesNotFollow', 'HostDrained'],
  ...['ServiceWithoutAddress', 'SeatHeldNowhere', 'NodeUnresponsive', 'ServicesLeft', 'KindNotFollowed'],
  ...['WebhookCertificateEnds', 'DeviceNotReady', 'DeviceForeignChanges', 'DeviceUnitBehind'],
];

/** A test of promtool: so many alerts of that name fire at that time. */
function toTest(alert: string, [series, minutes, count = 0]: Case['fires' | 'quiet'], step: number): object {
  return {
    interval: `${step}m`,
    input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
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

  test('goes by metrics that there are, and its case by series with the labels that they have', () => {
    const named = alerts.flatMap(({ expr }) => expr.match(/\bvipnat_[a-z_]+?(?=_bucket\b|[^a-z_]|$)/g) ?? []);
    expect(Object.keys(metrics)).toEqual(expect.arrayContaining(named));
    const series = Object.values(cases).flatMap(({ fires: [first], quiet: [other] }) =>
      Object.keys({ ...first, ...other }).filter((name) => name.startsWith('vipnat')),
    );
    expect(series.length).toBeGreaterThan(alerts.length);
    for (const text of series) {
      const labels = [...text.matchAll(/(\w+)=/g)].map(([, label = '']) => label);
      const own = labels.filter((label) => !['instance', 'job', 'le'].includes(label));
      expect([text, own]).toEqual([text, metrics[text.replace(/(_bucket)?\{.*/, '')]?.labels]);
    }
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
  test('finds nothing wrong with the rules', () => {
    expect(runPromtool(['check', 'rules', file])).toMatchObject({ status: 0 });
  });

  test.each([1, 5, 15])('finds each alert firing and silent as its case says, in steps of %d min', (step) => {
    const own = Object.entries(cases).filter(([, { stepMinutes = 1 }]) => stepMinutes === step);
    const tests = own.flatMap(([alert, { fires, quiet }]) =>
      [fires, quiet].map((one) => toTest(alert, one, step)),
    );
    expect(runTests(tests, step)).toEqual({ status: 0, output: expect.stringContaining('SUCCESS') });
  });

  test.each(settings)('%s finds %s as often as it shall', (_, alert, ...series) => {
    expect(runTests([toTest(alert, series, 15)], 15)).toMatchObject({ status: 0 });
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
    const ruleConflict = cases['VipnatRuleConflict']?.fires ?? [{}, 0, 0];
    expect(runTests([toTest('VipnatRuleConflict', ruleConflict, 1)], 1, broken)).toMatchObject({ status: 1 });
  });
});
