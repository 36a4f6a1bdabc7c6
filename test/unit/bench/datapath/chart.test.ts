import { type Chart, renderChart, chooseTicks } from '../../../../tools/bench/datapath/chart.ts';
import { test, expect, describe } from '@jest/globals';

const spread = (median: number) => ({ median, min: median - 0.5, max: median + 0.5 });
const chart: Chart = {
  clients: [1, 10_000],
  series: [
    { title: 'vipnat, direct', color: 'vipnat', ratios: [spread(1), spread(2)], processor: spread(10) },
    { title: 'HAProxy & <co>', color: 'haproxy', ratios: [spread(3), null], processor: null },
  ],
};
const picture = renderChart(chart);

/** The numbers of an attribute of all elements of a kind. */
const listNumbers = (pattern: RegExp) => [...picture.matchAll(pattern)].map(([, number]) => Number(number));

test('it is well-formed: what is opened is closed, and text is escaped', () => {
  const open: string[] = [];
  for (const [, end, name, own] of picture.matchAll(/<(\/?)([a-z]+)[^>]*?(\/?)>/g)) {
    if (end === '/') expect(open.pop()).toBe(name);
    else if (own !== '/') open.push(name ?? '');
  }
  expect(open).toEqual([]);
  expect(picture).toContain('HAProxy &amp; &lt;co>');
});

describe('where things are', () => {
  test('a greater ratio is higher, and one that is missing is left out', () => {
    const [even = 0, twice = 0, thrice = 0, ...more] = listNumbers(/<circle [^>]*cy="([\d.]+)"/g);
    expect(more).toEqual([]);
    // Steps of one are equally high.
    expect(even - twice).toBeCloseTo(twice - thrice, 0);
    expect(even).toBeGreaterThan(twice);
  });

  test('a bar is as long as its processor time on the axis below', () => {
    const [width = 0] = listNumbers(/<rect [^>]*width="([\d.]+)" height="[\d.]+" opacity/g);
    const grid = listNumbers(/<line class="grid" x1="([\d.]+)" x2="\1"/g);
    const ticks = chooseTicks(10.5);
    const perMicrosecond = ((grid.at(-1) ?? 0) - (grid[0] ?? 0)) / (ticks.at(-1) ?? 1);
    expect(width / perMicrosecond).toBeCloseTo(10, 0);
  });

  test('everything is inside', () => {
    const [, width = '', height = ''] = /viewBox="0 0 (\d+) (\d+)"/.exec(picture) ?? [];
    for (const x of listNumbers(/ (?:c?x|x1|x2)="([\d.-]+)"/g)) expect(x).toBeLessThanOrEqual(Number(width));
    for (const y of listNumbers(/ (?:c?y|y1|y2)="([\d.-]+)"/g)) expect(y).toBeLessThanOrEqual(Number(height));
  });
});

test.each([
  [2, [0, 0.5, 1, 1.5, 2]],
  [6.9, [0, 1, 2, 3, 4, 5, 6, 7]],
  [27, [0, 5, 10, 15, 20, 25, 30]],
  [130, [0, 20, 40, 60, 80, 100, 120, 140]],
])('an axis to %d has round numbers up to above it', (greatest, ticks) => {
  expect(chooseTicks(greatest)).toEqual(ticks);
});
