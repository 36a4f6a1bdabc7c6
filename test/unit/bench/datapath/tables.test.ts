import { renderTables, formatTime } from '../../../../tools/bench/datapath/tables.ts';
import { makeWindow, p50 } from './windows.ts';
import { test, expect } from '@jest/globals';

const tables = renderTables([
  makeWindow({ requests: 10_000 }),
  makeWindow({ path: 'vipnat', requests: 8000, all: p50(130) }),
  makeWindow({ path: 'haproxy', requests: 4000, all: p50(1400), errors: { refused: 4 } }),
]);
const findRow = (title: string) => tables.split('\n').find((line) => line.startsWith(`| ${title} |`));

test('a row has what clients saw at each number of them, and nothing where nothing was measured', () => {
  expect(findRow('vipnat, service-chain')).toBe(
    '| vipnat, service-chain |  | 1.30 |  |  |  |  | 130 µs | - | 250 µs |',
  );
  expect(findRow('straight')).toBe('| straight |  | 100 µs |  |  |  |  | 200 µs | - | 200 µs |');
});

test('failed requests are said', () => {
  expect(findRow('keepalived + HAProxy')).toContain('| 14.00, 1.0 ‰ failed |');
});

test.each([
  [0.4, '0 µs'],
  [999, '999 µs'],
  [999.6, '1.0 ms'],
  [12_345, '12.3 ms'],
  [345_678, '346 ms'],
  [2_787_998, '2.8 s'],
  [NaN, '-'],
])('%d µs is written as %s', (microseconds, expected) => {
  expect(formatTime(microseconds)).toBe(expected);
});
