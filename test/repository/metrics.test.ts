import { metrics, sampled, counted, createMetrics } from '../../lib/telemetry/metrics.ts';
import { controllerMetrics, drainStart } from '../../controller/report/metrics.ts';
import { balancerMetrics, programmingDuration } from '../../balancer/samples.ts';
import { describe, test, expect } from '@jest/globals';
import { readFileSync, globSync, writeFileSync } from 'node:fs';
import { describeWithPromtool, runPromtool } from './promtool.ts';
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

describe('docs/metrics.md', () => {
  const text = readFileSync('docs/metrics.md', 'utf8');
  const rows = [...text.matchAll(/^\| `((?:vipnat|process)_[a-z_]+)` *\| (\w+) *\| ([^|]*)\| ([^|]*)\|/gm)];

  test('has a row for every metric with its type, labels and meaning, in the order of the catalogue, and no other', () => {
    expect(
      rows.map(([, name, type, labels = '', meaning = '']) => ({
        name,
        type,
        labels: [...labels.matchAll(/`([^`]+)`/g)].map(([, label]) => label),
        help: meaning.trim(),
      })),
    ).toEqual(
      Object.entries(documented).map(([name, { type, labels, help }]) => ({
        name,
        type,
        labels,
        help: `${help}.`,
      })),
    );
  });
});

test('every metric gets its values somewhere in the agent', () => {
  const text = globSync(['agent/**/*.ts', 'lib/telemetry/metrics.ts'])
    .map((file) => readFileSync(file, 'utf8'))
    .join('\n');
  const uses = [...text.matchAll(/\b(sample|count)\(\s*'(\w+)'/g)];
  const list = (kinds: readonly string[]) =>
    new Set(uses.flatMap(([, kind = '', name = '']) => (kinds.includes(kind) ? [name] : [])));
  expect([...list(['sample'])].sort()).toEqual(Object.keys(sampled).sort());
  const timed = text.includes('meter.time(') ? ['vipnat_sync_duration_seconds'] : [];
  expect([...list(['count']), ...timed].sort()).toEqual(Object.keys(counted).sort());
});

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat?: string }[];
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  /** Of a row. */
  readonly collapsed?: boolean;
  readonly panels?: readonly Panel[];
}

interface Dashboard {
  readonly uid: string;
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { name: string; type: string; definition?: string }[] };
  readonly annotations: {
    readonly list: readonly { expr: string; titleFormat: string; textFormat: string }[];
  };
}

const dashboards = globSync('manifests/dashboards/*.json').map((file) => ({
  file,
  text: readFileSync(file, 'utf8'),
  ...(JSON.parse(readFileSync(file, 'utf8')) as Dashboard),
}));

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
    for (const { title, description, fieldConfig, gridPos } of panels) {
      expect([title, fieldConfig?.defaults.unit, description]).toEqual([
        title,
        expect.any(String),
        expect.any(String),
      ]);
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
    }
    const isBeside = ({ x, y, w, h }: Panel['gridPos'], other: Panel['gridPos']) =>
      x + w <= other.x || other.x + other.w <= x || y + h <= other.y || other.y + other.h <= y;
    const [first = [], ...others] = [one.panels, ...one.panels.map((row) => row.panels ?? [])];
    for (const group of [first, ...others])
      expect(group.filter((a) => group.some((b) => a !== b && !isBeside(a.gridPos, b.gridPos)))).toEqual([]);
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
