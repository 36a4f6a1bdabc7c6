import { renderTables, formatTime } from '../../../../tools/bench/datapath/tables.ts';
import { makeWindow, p50 } from './windows.ts';
import { test, expect } from '@jest/globals';

const tables = renderTables([
  makeWindow({ requests: 10_000 }),
  makeWindow({ path: 'vipnat', requests: 8000, all: p50(130) }),
  makeWindow({ path: 'haproxy', requests: 4000, all: p50(1400), errors: { refused: 4 } }),
]);
const findRow = (title: string, nth: number) =>
  tables.split('\n').filter((line) => line.startsWith(`| ${title} |`))[nth];

test('a row has what clients saw at each number of them, and nothing where nothing was measured', () => {
  expect(findRow('vipnat, service-chain', 0)).toBe('| vipnat, service-chain |  |  | 130 µs – 130 µs |  |  |');
  expect(findRow('vipnat, service-chain', 1)).toBe(
    '| vipnat, service-chain |  |  | 1.30 (1.30 to 1.30); 8,000/s |  |  |',
  );
  expect(findRow('straight', 1)).toBe('| straight |  |  | 10,000/s |  |  |');
});

test('failed requests are said', () => {
  expect(findRow('keepalived + HAProxy', 1)).toContain('4,000/s, 1.0 ‰ failed');
});

test("processor time is held against HAProxy's, beyond what straight access takes", () => {
  // 200 µs straight, 250 by vipnat, 500 by HAProxy.
  expect(findRow('vipnat, service-chain', 3)).toContain('| 250 µs | 50 µs (50 to 50) | 0.17 |');
  expect(findRow('keepalived + HAProxy', 3)).toContain('| 500 µs | 300 µs (300 to 300) | 1.00 |');
});

test('a way that was not measured has no row among the loads', () => {
  expect(findRow("kube-proxy's ClusterIP", 0)).not.toContain('/s');
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
