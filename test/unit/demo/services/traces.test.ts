import { test, expect } from '@jest/globals';
import { listTraces } from '../../../../tools/demo/services/traces.ts';

const pool = '10.77.0.200-10.77.0.219';

const clean = `table ip nat
table ip vipnat
2: eth0    inet 10.77.0.21/24 scope global eth0
2: eth0    inet 10.77.0.50/32 scope global eth0
keepalived --dont-fork --use-file /run/vipnat/keepalived/keepalived.conf
/usr/bin/node /app/vipnat.js run --vip 10.77.0.50
`;

test('what the API has a virtual IP for is no trace of Services', () => {
  expect(listTraces(clean, pool)).toEqual([]);
});

test.each([
  ['table ip vipnat-lb'],
  ['table ip6 vipnat-lb'],
  ['keepalived --vrrp --use-file /run/vipnat-lb/keepalived.conf'],
  ['node /app/vipnat.js balancer --run-dir /run/vipnat-lb'],
  ['2: eth0    inet 10.77.0.219/32 scope global eth0', 'address 10.77.0.219'],
])('%j is one', (line, trace = line) => {
  expect(listTraces(`${clean}${line}\n`, pool)).toEqual([trace]);
});
