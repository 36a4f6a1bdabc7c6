import { expect, test } from '@jest/globals';
import { FlowCleaner } from '../../../../balancer/program/flow-cleaner.ts';
import { listGoneFlows } from '../../../../balancer/program/gone-flows.ts';
import { type PortBalance } from '../../../../balancer/decide/port-balance.ts';
import { type BalancedFlow } from '../../../../lib/kernel/real/balancer-tables.ts';
import { VipnatError } from '../../../../lib/text/errors.ts';
import { createRecordingLogger } from '../../../support/fakes/logger.ts';

const [a, b] = [
  { address: '10.244.1.2', port: 8080 },
  { address: '10.244.2.2', port: 8080 },
];

function balance(protocol: string, backends: PortBalance['backends'], present = backends): PortBalance {
  return {
    family: 'ipv4',
    service: 'default/web',
    addresses: ['10.0.9.10'],
    protocol,
    port: 80,
    method: 'random',
    affinitySeconds: null,
    sources: null,
    keepsClient: false,
    isHere: true,
    relay: null,
    backends,
    present,
  };
}

const backendsOf = (flows: readonly BalancedFlow[]) => flows.map(({ backend }) => backend.address);

test('TCP connections are forgotten when their endpoint is gone, and not while it ends', () => {
  const before = [balance('TCP', [a, b])];
  expect(listGoneFlows(before, [balance('TCP', [b], [a, b])])).toEqual([]);
  expect(backendsOf(listGoneFlows(before, [balance('TCP', [b])]))).toEqual([a.address]);
  expect(backendsOf(listGoneFlows(before, []))).toEqual([a.address, b.address]);
});

test('UDP clients are sent elsewhere as soon as their endpoint takes no new ones', () => {
  const gone = listGoneFlows([balance('UDP', [a, b])], [balance('UDP', [b], [a, b])]);
  expect(gone).toEqual([
    {
      protocol: 'udp',
      vip: { family: 'ipv4', address: '10.0.9.10', port: 80 },
      backend: { family: 'ipv4', ...a },
    },
  ]);
});

test('flows are deleted one after the other, also those that come when none was left, and a failure is told once', async () => {
  const deleted: string[] = [];
  const logger = createRecordingLogger();
  const cleaner = new FlowCleaner(
    {
      deleteFlows: ({ backend }) => {
        deleted.push(backend.address);
        if (backend.address !== b.address) return Promise.resolve(2);
        return Promise.reject(new VipnatError('TOOL_MISSING', 'conntrack is missing'));
      },
    },
    logger,
  );
  cleaner.add([]);
  cleaner.add(listGoneFlows([balance('TCP', [a])], []));
  await new Promise(setImmediate);
  cleaner.add(listGoneFlows([balance('TCP', [b, b])], []));
  await new Promise(setImmediate);
  cleaner.add(listGoneFlows([balance('TCP', [a])], []));
  await cleaner.stop();
  expect(deleted).toEqual([a.address, b.address, b.address, a.address]);
  const forgotten = '2 connections of 10.0.9.10:80 to 10.244.1.2:8080, which is gone, are forgotten';
  expect(logger.lines.map(({ message }) => message)).toEqual([
    forgotten,
    'connections stay: conntrack is missing',
    forgotten,
  ]);
});
