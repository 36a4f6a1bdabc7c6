import { test, expect } from '@jest/globals';
import { renderSummary } from '../../../../tools/bench/datapath/summary.ts';
import { makeWindow, p50 } from './windows.ts';

test('what was measured is compared with the aims, and nothing else is', () => {
  const lines = renderSummary([
    makeWindow({ requests: 10_000 }),
    makeWindow({
      ...{ path: 'vipnat', requests: 8000, all: p50(104) },
      servers: { m1: { ...p50(101), requests: 1 }, m2: { ...p50(120), requests: 2 } },
    }),
    makeWindow({ path: 'haproxy', requests: 4000, watched: { haproxy: { seconds: 1, megabytes: 20 } } }),
    makeWindow({ path: 'direct', clients: 1 }),
    makeWindow({ workload: 'apiserver-kept', path: 'direct', clients: 1 }),
    makeWindow({ ...{ workload: 'apiserver-kept', path: 'vipnat', clients: 1 }, all: p50(103) }),
    makeWindow({
      ...{ path: 'vipnat', clients: 1, all: p50(115) },
      servers: { m1: { ...p50(102), requests: 1 }, m2: { ...p50(120), requests: 2 } },
    }),
  ]);
  expect(lines).toEqual([
    expect.stringContaining('(aim: at most 1.05)'),
    '',
    '- kube-apiserver, kept: 1.03',
    '',
    expect.stringContaining('(aim: at most 0.6)'),
    '',
    // 200 µs straight, 250 by vipnat, 500 by HAProxy, of which 250 in its own process.
    '- vipnat, service-chain: 0.17',
    '',
    expect.stringContaining('takes 250 µs for one'),
  ]);
});
