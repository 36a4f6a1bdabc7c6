import { metrics, sampled, counted, createMetrics } from '../../lib/telemetry/metrics.ts';
import { controllerMetrics, drainStart } from '../../controller/report/metrics.ts';
import { balancerMetrics, programmingDuration } from '../../balancer/samples.ts';
import { describe, test, expect } from '@jest/globals';
import { readFileSync, globSync, writeFileSync } from 'node:fs';
import { describeWithPromtool, runPromtool } from './promtool.ts';
import { join } from 'node:path';
import { makeFolder } from '../support/network/own-folder.ts';
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

describe('manifests/dashboard.json', () => {
  interface Panel {
    readonly id: number;
    readonly type: string;
    readonly title: string;
    readonly description?: string;
    readonly fieldConfig?: { readonly defaults: { readonly unit?: string } };
    readonly targets?: readonly { readonly expr: string }[];
    readonly gridPos: { readonly x: number; readonly w: number };
  }
  const dashboard = JSON.parse(readFileSync('manifests/dashboard.json', 'utf8')) as {
    panels: Panel[];
    templating: { list: { name: string; type: string }[] };
  };
  const panels = dashboard.panels.filter(({ type }) => type !== 'row');
  const expressions = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

  test('shows every metric that there is, and no other', () => {
    const named = expressions.flatMap((text) => text.match(/\b(?:vipnat|process)_[a-z_]+/g) ?? []);
    const shown = new Set(named.map((one) => one.replace(/(duration_seconds)_(?:bucket|count|sum)$/, '$1')));
    expect([...shown].sort()).toEqual([...names].sort());
  });

  describeWithPromtool('for promtool', () => {
    const folder = makeFolder('dashboard');

    test('has expressions that Prometheus reads', () => {
      const rules = expressions.map((expr, index) => ({
        record: `panel:${index}`,
        expr: expr.replaceAll(/\$(?:instance|vip)\b/g, '.*'),
      }));
      const file = join(folder, 'rules.yaml');
      writeFileSync(file, JSON.stringify({ groups: [{ name: 'dashboard', rules }] }));
      expect(runPromtool(['check', 'rules', file])).toMatchObject({ status: 0 });
    });
  });

  test('takes its data source, the nodes and the VIPs from variables', () => {
    expect(dashboard.templating.list.map(({ name, type }) => [name, type])).toEqual([
      ['datasource', 'datasource'],
      ['instance', 'query'],
      ['vip', 'query'],
    ]);
    const ofVips = expressions.filter((text) =>
      Object.entries(metrics).some(([name, { labels }]) => labels.includes('vip') && text.includes(name)),
    );
    expect(ofVips.filter((text) => !text.includes('vip=~"$vip"'))).toEqual([]);
    expect(
      JSON.stringify(panels)
        .match(/"uid":"[^"]*"/g)
        ?.every((uid) => uid === '"uid":"${datasource}"'),
    ).toBe(true);
  });

  test('has panels with a unit and a description, each once, within the width', () => {
    expect(panels.length).toBeGreaterThan(20);
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
    for (const { title, description, fieldConfig, gridPos } of panels) {
      expect([title, fieldConfig?.defaults.unit, description]).toEqual([
        title,
        expect.any(String),
        expect.any(String),
      ]);
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
    }
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
