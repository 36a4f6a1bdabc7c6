import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { withoutConnectionCounts } from '../../../../../lib/kernel/watch/ipvs.ts';

const capture = readFileSync(
  new URL('../../../../support/fixtures/captures/proc-net-ip_vs.three-endpoints.txt', import.meta.url),
  'utf8',
);

test('connection counts are no change of IPVS, weights are', () => {
  const server = /^( {2}-> \S+ +\S+ +)1( +)\d+( +)\d+/m;
  expect(capture).toMatch(server);
  const plain = withoutConnectionCounts(capture);
  expect(withoutConnectionCounts(capture.replace(server, '$11$242$37'))).toBe(plain);
  expect(withoutConnectionCounts(capture.replace(server, '$10$20$30'))).not.toBe(plain);
});

test('virtual servers stay as they are', () => {
  expect(withoutConnectionCounts(capture)).toContain('TCP  0A600001:01BB rr');
});
