import type { WindowRecord } from '../../../../tools/bench/datapath/record.ts';

/** A window of 100 clients with new connections, by the VIP's holder m1 and by m2, in a second of two busy processors. */
export function makeWindow(given: Partial<WindowRecord>): WindowRecord {
  const latencies = { p50: 100, p99: 200, max: 300 };
  return {
    ...{ setting: 'service-chain', workload: 'new', clients: 100, path: 'direct', round: 1 },
    ...{ holder: 'm1', rest: 0, at: '2026-01-02T03:04:05.000Z', seconds: 1, requests: 1000, errors: {} },
    all: latencies,
    servers: { m1: { ...latencies, requests: 500 }, m2: { ...latencies, requests: 500 } },
    machine: { busy: 2, idle: 0 },
    watched: {},
    ...given,
  };
}

/** Latencies of which only the p50 matters. */
export function p50(microseconds: number) {
  return { p50: microseconds, p99: microseconds, max: microseconds };
}
