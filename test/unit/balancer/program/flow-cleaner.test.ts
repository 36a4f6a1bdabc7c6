import { describe, expect, test } from '@jest/globals';
import { FlowCleaner } from '../../../../balancer/program/flow-cleaner.ts';
import { listGoneFlows, listStrayFlows } from '../../../../balancer/program/gone-flows.ts';
import { type PortBalance } from '../../../../balancer/decide/port-balance.ts';
import { type BalancedFlow } from '../../../../lib/kernel/port.ts';
import { readTranslatedFlows } from '../../../../lib/kernel/real/conntrack.ts';
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
      listFlows: () => Promise.resolve([]),
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

describe('connections of a former life', () => {
  const listing = `tcp      6 86398 ESTABLISHED src=10.77.0.100 dst=10.0.9.10 sport=40000 dport=80 src=10.244.1.2 dst=10.77.0.11 sport=8080 dport=1024 [ASSURED] mark=0 use=1
tcp      6 86398 ESTABLISHED src=10.77.0.100 dst=10.0.9.10 sport=40001 dport=80 src=10.244.9.9 dst=10.77.0.11 sport=8080 dport=1025 [ASSURED] mark=0 use=1
tcp      6 100 SYN_SENT src=10.77.0.100 dst=10.0.9.10 sport=40002 dport=80 [UNREPLIED] src=10.244.9.9 dst=10.77.0.11 sport=8080 dport=1026 mark=0 use=1
tcp      6 86398 ESTABLISHED src=10.77.0.100 dst=10.96.0.1 sport=40003 dport=443 src=10.244.9.9 dst=10.77.0.11 sport=8080 dport=1027 [ASSURED] mark=0 use=1
udp      17 29 src=10.77.0.100 dst=10.0.9.10 sport=40004 dport=80 src=10.244.2.2 dst=10.77.0.11 sport=8080 dport=1028 mark=0 use=1
icmp     1 29 src=10.77.0.100 dst=10.0.9.10 type=8 code=0 id=1 src=10.0.9.10 dst=10.77.0.100 type=0 code=0 id=1 mark=0 use=1
conntrack v1.4.7 (conntrack-tools): 6 flow entries have been shown.
`;

  test('are forgotten if they are of a balanced port, and their endpoint is gone', async () => {
    const flows = readTranslatedFlows(listing, 'ipv4');
    expect(flows).toHaveLength(4);
    const balances = [[balance('TCP', [a, b])], [balance('UDP', [a], [a, b])]];
    const deleted: BalancedFlow[] = [];
    const cleaner = new FlowCleaner(
      {
        listFlows: () => Promise.resolve(flows),
        deleteFlows: (flow) => Promise.resolve(deleted.push(flow)),
      },
      createRecordingLogger(),
    );
    cleaner.sweep((all) => listStrayFlows(all, balances));
    await new Promise(setImmediate);
    await cleaner.stop();
    expect(deleted.map(({ protocol, backend }) => [protocol, backend.address])).toEqual([
      ['tcp', '10.244.9.9'],
      ['udp', '10.244.2.2'],
    ]);
  });

  test('a listing that fails is told, and keeps nothing', async () => {
    const logger = createRecordingLogger();
    const cleaner = new FlowCleaner(
      {
        listFlows: () => Promise.reject(new VipnatError('TOOL_MISSING', 'conntrack is missing')),
        deleteFlows: () => Promise.resolve(0),
      },
      logger,
    );
    cleaner.sweep((all) => all);
    await cleaner.stop();
    expect(logger.lines.map(({ message }) => message)).toEqual(['connections stay: conntrack is missing']);
  });
});
