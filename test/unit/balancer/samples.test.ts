import { type BalancerState, BalancerCounter } from '../../../balancer/report.ts';
import { balancerMetrics, judgeBalancerHealth, judgeBalancerReadiness } from '../../../balancer/samples.ts';
import { listStateSamples } from '../../../lib/telemetry/metrics.ts';
import { describe, test, expect } from '@jest/globals';
import { balancerState as state } from '../../support/fakes/metric-states.ts';

function list(parts: Partial<BalancerState> = {}) {
  return listStateSamples(balancerMetrics, { ...state, ...parts }).map(({ name, labels, value }) => {
    const text = Object.entries(labels).map(([label, word]) => `${label}=${word}`);
    return `${name.replace('vipnat_balancer_', '')}{${text.join()}} ${value}`;
  });
}

describe("a balancer's metrics", () => {
  test('say what its tables have, and which seats it holds', () => {
    expect(list()).toEqual([
      ...['services{} 3', 'services_left{} 1', 'table_elements{} 40'],
      ...['memory_used_ratio{memory=ipv4 clients/default/web/tcp/80/60} 0.5', 'mode{mode=direct} 1'],
      ...['mode{mode=kube-proxy} 0', 'mode{mode=none} 0', 'seat_held{seat=pool/0} 0'],
      ...['seat_held{seat=pool/1} 1', 'addresses_in_use{} 1', 'watched{} 0', 'draining_endpoints{} 3'],
      ...['draining_connections{} 7', 'nodes_asked{} 3', 'nodes_unresponsive{} 1', 'node_probes_total{} 12'],
      ...['api_followed{} 1', 'kind_followed{kind=Service} 1', 'kind_followed{kind=EndpointSlice} 0'],
      ...[`last_sync_timestamp_seconds{} ${Date.parse('2027-01-15T08:00:00Z') / 1000}`, 'changes_total{} 0'],
      'repairs_total{} 0',
    ]);
  });

  test('name objects that cannot be read, and leave out what is not known before the first sync', () => {
    const unreadable = [{ kind: 'Service', object: 'shop/odd' }];
    expect(list({ unreadable })).toContain('object_unreadable{kind=Service,object=shop/odd} 1');
    const names = list({ mode: null, syncedAt: null, seats: [] }).join(' ');
    expect(names).not.toMatch(/mode|seat_held|last_sync/);
  });

  test('count changes, repairs and failures, and time changes in seconds', () => {
    const times: number[] = [];
    const counter = new BalancerCounter((seconds) => times.push(seconds));
    counter.programmed(2, 150);
    counter.programmed(1, 50);
    counter.repaired();
    counter.failed('TOOL_FAILED');
    counter.failed('TOOL_FAILED');
    expect(times).toEqual([0.15, 0.05]);
    const counts = ['changes_total{} 3', 'repairs_total{} 1', 'failures_total{code=TOOL_FAILED} 2'];
    expect(list({ counts: counter.counts })).toEqual(expect.arrayContaining(counts));
  });
});

describe('the probes of a balancer', () => {
  test('fail where its sync hangs for two minutes, and not before', () => {
    expect(judgeBalancerHealth({ behindMs: 119_999 })).toMatchObject({ status: 200 });
    expect(judgeBalancerHealth({ behindMs: 120_000 })).toMatchObject({
      status: 500,
      text: 'the balancer hangs: its sync is 120 s behind\n',
    });
  });

  test.each([
    [null, 503, 'not ready: the tables are not written yet\n'],
    ['direct', 200, 'ok\n'],
    ['kube-proxy', 503, 'not ready: the tables do not count on this node (kube-proxy)\n'],
  ] as const)('say whether its tables count in mode %s', (mode, status, text) => {
    expect(judgeBalancerReadiness({ mode })).toMatchObject({ status, text });
  });
});
