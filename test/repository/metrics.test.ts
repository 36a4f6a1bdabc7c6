import { metrics, sampled, counted, createMetrics } from '../../lib/telemetry/metrics.ts';
import { controllerMetrics, drainStart } from '../../controller/report/metrics.ts';
import { balancerMetrics, programmingDuration } from '../../balancer/samples.ts';
import { describe, test, expect } from '@jest/globals';
import { readFileSync, globSync, writeFileSync } from 'node:fs';
import { describeWithPromtool, runPromtool } from '../support/documents/promtool.ts';
import { join } from 'node:path';
import { makeFolder } from '../support/network/own-folder.ts';
import { recordPages } from './metric-pages.ts';
import { LoopMetrics } from '../../agent/report/metrics.ts';
import { toEndpoint } from '../support/fakes/endpoints.ts';

/** Of agents, controllers and balancers. */
const documented = {
  ...metrics,
  ...controllerMetrics,
  [drainStart.name]: drainStart.definition,
  ...balancerMetrics,
  [programmingDuration.name]: programmingDuration.definition,
};

const names = Object.keys(documented);

test('every metric gets its values somewhere in the agent', () => {
  const files = globSync(['agent/**/*.ts', 'lib/telemetry/metrics.ts']);
  const text = files.map((file) => readFileSync(file, 'utf8')).join('\n');
  const uses = [...text.matchAll(/\b(?:sample|count)\(\s*'(\w+)'/g)].map(([, name]) => name);
  const timed = text.includes('meter.time(') ? ['vipnat_sync_duration_seconds'] : [];
  expect([...new Set([...uses, ...timed])].sort()).toEqual(Object.keys({ ...sampled, ...counted }).sort());
});

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat?: string }[];
  readonly gridPos: Readonly<Record<'x' | 'y' | 'w' | 'h', number>>;
  /** Of a row. */
  readonly collapsed?: boolean;
  readonly panels?: readonly Panel[];
}

interface Dashboard {
  readonly uid: string;
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { name: string; definition?: string }[] };
  readonly annotations: { readonly list: readonly Record<'expr' | 'titleFormat' | 'textFormat', string>[] };
}

const dashboards = globSync('manifests/dashboards/*.json').map((file) => {
  const text = readFileSync(file, 'utf8');
  return { file, text, ...(JSON.parse(text) as Dashboard) };
});

const listPanels = ({ panels }: Pick<Dashboard, 'panels'>): readonly Panel[] =>
  panels.flatMap(({ panels: own = [], ...panel }) => [...(panel.type === 'row' ? [] : [panel]), ...own]);

/** Each expression of a dashboard, and the texts that name labels of its answer. */
const listQueries = (
  dashboard: Dashboard,
): readonly (readonly [expr: string, naming: string | undefined])[] => [
  ...listPanels(dashboard).flatMap(({ targets = [] }) =>
    targets.map(({ expr, legendFormat }) => [expr, legendFormat] as const),
  ),
  ...dashboard.annotations.list.map(
    ({ expr, titleFormat, textFormat }) => [expr, `${titleFormat} ${textFormat}`] as const,
  ),
  ...dashboard.templating.list.flatMap(({ definition = '' }) => {
    const [, metric, label] = /^label_values\((.*), (\w+)\)$/.exec(definition) ?? [];
    return metric === undefined ? [] : [[metric, `{{${label}}}`] as const];
  }),
];

describe('the dashboards', () => {
  test('show every metric that there is, and no other', () => {
    const expressions = dashboards.flatMap(listQueries).map(([expr]) => expr);
    const named = expressions.flatMap((text) => text.match(/\b(?:vipnat|process)_[a-z_]+/g) ?? []);
    const shown = new Set(named.map((one) => one.replace(/(duration_seconds)_(?:bucket|count|sum)$/, '$1')));
    expect([...shown].sort()).toEqual([...names].sort());
  });

  test.each(dashboards)('$file has panels with a unit and a description, each once, in no other', (one) => {
    const panels = listPanels(one);
    const all = one.panels.flatMap((panel) => [panel, ...(panel.panels ?? [])]);
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
    const toFacts = ({ title, description, fieldConfig }: Panel) => [
      title,
      description,
      fieldConfig?.defaults.unit,
    ];
    const text = expect.stringMatching(/./);
    expect(panels.map(toFacts)).toEqual(panels.map(() => [text, text, text]));
    expect(panels.filter(({ gridPos: { x, w } }) => x + w > 24)).toEqual([]);
    const isBeside = (one: Panel['gridPos'], two: Panel['gridPos']) =>
      one.x + one.w <= two.x || one.y + one.h <= two.y;
    const isOver = ({ gridPos: a }: Panel, { gridPos: b }: Panel) =>
      a !== b && !isBeside(a, b) && !isBeside(b, a);
    for (const group of [one.panels, ...one.panels.map((row) => row.panels ?? [])])
      expect(group.filter((panel) => group.some((other) => isOver(panel, other)))).toEqual([]);
    // Whoever opens it sees the first row.
    const rows = one.panels.filter(({ type }) => type === 'row');
    expect(rows.map(({ collapsed }) => collapsed)).toEqual(rows.map((_, index) => index > 0));
    expect(one.text.match(/"uid": "[^"]*"/g)?.filter((uid) => !uid.includes('${datasource}'))).toEqual([
      `"uid": "${one.uid}"`,
    ]);
    const [source, cluster] = one.templating.list.map(({ name }) => name);
    expect([source, cluster]).toEqual(['datasource', 'cluster']);
  });

  describeWithPromtool('for Prometheus', () => {
    const folder = makeFolder('dashboards');

    /** Whether an expression has an answer, with a value for each label that the text names. */
    const toTest = (expr: string, naming = '', cluster = 'c') => {
      const named = [...naming.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = '']) => label);
      const shown = named.map((label) => ` unless on (${label}) vector(0)`).join('');
      const filled = expr.replaceAll('$cluster', cluster).replaceAll(/\$[a-z]+/g, '.*');
      const answer = cluster === 'c' ? [{ labels: '{}', value: 1 }] : [];
      return { expr: `count((${filled})${shown}) > bool 0`, eval_time: '5m', exp_samples: answer };
    };

    test.each(dashboards)(
      '$file asks what the pages of programs answer, of one cluster',
      async (dashboard) => {
        const series = await recordPages('cluster="c"');
        const queries = listQueries(dashboard);
        expect(queries.length).toBeGreaterThan(25);
        const ofCluster = queries.filter(([expr]) => expr.includes('$cluster'));
        expect(queries.length - ofCluster.length).toBe(1);
        const tests = {
          interval: '1m',
          input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
          promql_expr_test: [
            ...queries.map(([expr, naming]) => toTest(expr, naming)),
            ...ofCluster.map(([expr]) => toTest(expr, '', 'other')),
          ],
        };
        const file = join(folder, 'tests.yaml');
        writeFileSync(file, JSON.stringify({ evaluation_interval: '1m', tests: [tests] }));
        const success = expect.stringContaining('SUCCESS');
        expect(runPromtool(['test', 'rules', file])).toEqual({ status: 0, output: success });
      },
    );
  });
});

describeWithPromtool('promtool', () => {
  test('finds nothing wrong with what an agent prints', async () => {
    const { meter, print } = await createMetrics();
    new LoopMetrics(meter, [toEndpoint('[fd00::50]:6443')]).ruleConflict();
    const text = await print([{ name: 'vipnat_vip_held', labels: { vip: '[fd00::50]:6443' }, value: 1 }]);
    expect(runPromtool(['check', 'metrics'], text)).toEqual({ status: 0, output: '' });
    expect(runPromtool(['check', 'metrics'], text.replace('# HELP vipnat_vip_held ', '# '))).not.toEqual({
      status: 0,
      output: '',
    });
  });
});
