import { expect, test } from '@jest/globals';
import { findNearest } from '../../../config/nearest.ts';

const names = ['vip', 'mode', 'proxyMode', 'clusterIp', 'endpoints', 'logLevel', 'logFormat'];

test.each([
  ['vpi', 'vip'],
  ['vips', 'vip'],
  ['proxy-mode', 'proxyMode'],
  ['PROXY_MDOE', 'proxyMode'],
  ['endpoint', 'endpoints'],
  ['loglvel', 'logLevel'],
])('%s most likely means %s', (word, nearest) => {
  expect(findNearest(word, names)).toBe(nearest);
});

test.each(['', 'kubeconfig', 'x'.repeat(100_000)])('nothing is near to %.20s', (word) => {
  expect(findNearest(word, names)).toBeNull();
});
