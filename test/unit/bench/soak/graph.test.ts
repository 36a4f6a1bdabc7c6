import { renderGraph } from '../../../../tools/bench/soak/graph.ts';
import { test, expect } from '@jest/globals';

const many = Array.from({ length: 1000 }, (_, index) => [index / 10, 60 + (index % 3)] as const);
const two = [0, 100].map((at) => [at, at * 0.8] as const);
const drawn = [many, two].map((points, index) => ({ name: `m${index + 1}`, points }));
const graph = renderGraph([{ title: 'memory, MiB', lines: drawn }], [10, 90]);

/** Where the lines go, as x and y. */
const lines = [...graph.matchAll(/points="([^"]*)"/g)].map(([, text = '']) =>
  text.split(' ').map((point) => point.split(',').map(Number)),
);

test('a line goes from the left to the right edge and from 0 at the bottom to the greatest tick', () => {
  const [, [first = [], last = []] = []] = lines;
  const [bottom, top] = [/y1="([\d.]+)"[^]*?>0</, /y1="([\d.]+)"[^<]*\n<text[^>]*>80</].map((pattern) =>
    Number(pattern.exec(graph)?.[1]),
  );
  expect(first[0]).toBeLessThan(last[0] ?? 0);
  expect([first[1], last[1]]).toEqual([bottom, top]);
});

test('a thousand points are drawn as some two hundred, and one odd sample is none', () => {
  const [first = []] = lines;
  expect(first.length).toBeLessThanOrEqual(240);
  expect(new Set(first.map(([, y]) => y)).size).toBe(1);
});

test('axes say what they count, and the time without faults is shaded', () => {
  for (const text of ['memory, MiB', 'minutes', 'm1', 'm2']) expect(graph).toContain(`>${text}</text>`);
  expect(graph.match(/class="mark"/g)).toHaveLength(2);
});
