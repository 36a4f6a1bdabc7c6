import { expect, test } from '@jest/globals';
import { FlowCleaner } from '../../../../balancer/program/flow-cleaner.ts';
import { createStrayFilter, listGoneFlows } from '../../../../balancer/program/gone-flows.ts';
import { type PortBalance } from '../../../../balancer/decide/port-balance.ts';
import { type BalancedFlow } from '../../../../lib/kernel/port.ts';
import { sleep } from '../../../../lib/control/clock.ts';
import { VipnatError } from '../../../../lib/text/errors.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
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

const flowTo = (backend: typeof a, port = 80): BalancedFlow => ({
  protocol: 'tcp',
  vip: { family: 'ipv4', address: '10.0.9.10', port },
  backend: { family: 'ipv4', ...backend },
});

/** A kernel that has these connections, and takes so long for each walk through its table. */
function start(connections: readonly BalancedFlow[], walkMs = 40) {
  const clock = new FakeClock();
  const logger = createRecordingLogger();
  const host = { connections: [...connections], walks: [] as number[], failure: null as Error | null };
  const forgetFlows = async (isChosen: (flow: BalancedFlow) => boolean) => {
    host.walks.push(clock.now());
    await sleep(clock, walkMs);
    if (host.failure !== null) throw host.failure;
    const chosen = host.connections.filter(isChosen);
    host.connections = host.connections.filter((flow) => !chosen.includes(flow));
    return chosen.map((flow) => ({ ...flow, count: 2 }));
  };
  const balances = [[balance('TCP', [a]), balance('UDP', [a], [a, b])]];
  const cleaner = new FlowCleaner({ kernel: { forgetFlows }, clock, logger }, () =>
    createStrayFilter(balances),
  );
  return { clock, cleaner, host, lines: () => logger.lines.map(({ message }) => message) };
}

test('the first endpoint that goes is looked for at once; those that go meanwhile come together', async () => {
  const { clock, cleaner, host, lines } = start([flowTo(a), flowTo(b)]);
  cleaner.add([]);
  await clock.advance(10_000);
  expect(host.walks).toEqual([]);
  cleaner.add([flowTo(a)]);
  await clock.advance(20);
  for (let port = 100; port < 1000; port += 1) cleaner.add([flowTo(b, port)]);
  await clock.advance(20);
  expect(lines()).toEqual(['2 connections of 10.0.9.10:80 to 10.244.1.2:8080, which is gone, are forgotten']);
  await clock.advance(10_000);
  expect(host.walks).toHaveLength(2);
  expect(host.connections).toEqual([flowTo(b)]);
  expect(clock.pending).toBe(0);
});

test.each([
  { walkMs: 1, share: 0.012 },
  { walkMs: 40, share: 0.012 },
  { walkMs: 500, share: 0.1 },
])(
  'however often endpoints go, walks of $walkMs ms take $share of the time at most, and find all',
  async ({ walkMs, share }) => {
    const flows = Array.from({ length: 1200 }, (_, at) => flowTo(b, at + 1));
    const { clock, cleaner, host } = start(flows, walkMs);
    for (const flow of flows) {
      cleaner.add([flow]);
      await clock.advance(50);
    }
    expect((host.walks.length * walkMs) / 60_000).toBeLessThan(share);
    await clock.advance(6000);
    expect(host.connections).toEqual([]);
  },
);

test('an endpoint that is back before its turn, or during a walk, keeps its connections', async () => {
  const { clock, cleaner, host } = start([flowTo(a), flowTo(b)]);
  cleaner.add([flowTo(a), flowTo(b)]);
  cleaner.keep([flowTo(a)]);
  await clock.advance(20);
  cleaner.keep([flowTo(b)]);
  await clock.advance(10_000);
  expect([host.walks.length, host.connections.length]).toEqual([1, 2]);
});

test('a failure is told once, and nothing is left out that was to be looked for', async () => {
  const { clock, cleaner, host, lines } = start([flowTo(a)]);
  host.failure = new VipnatError('NETLINK_FAILED', 'the kernel is busy');
  cleaner.add([flowTo(a)]);
  await clock.advance(14_000);
  expect([host.walks.length, lines()]).toEqual([3, ['connections stay: the kernel is busy']]);
  host.failure = null;
  await clock.advance(5000);
  expect([host.connections, lines().length]).toEqual([[], 2]);
  host.failure = new VipnatError('NETLINK_FAILED', 'the kernel is busy');
  cleaner.add([flowTo(a)]);
  await clock.advance(5000);
  expect(lines()).toHaveLength(3);
  await cleaner.stop();
});

test('a sweep looks for connections of balanced ports to endpoints that are not there', async () => {
  const udp = (port: number): BalancedFlow => ({ ...flowTo(b, port), protocol: 'udp' });
  const { clock, cleaner, host } = start([flowTo(a), flowTo(b), udp(80), flowTo(b, 443), udp(443)]);
  cleaner.sweep();
  await clock.advance(40);
  expect(host.connections).toEqual([flowTo(a), flowTo(b, 443), udp(443)]);
});

test('more endpoints than are kept are found by a sweep', async () => {
  const { clock, cleaner, host } = start([flowTo(b)]);
  cleaner.add([flowTo(b)]);
  cleaner.add(Array.from({ length: 250_001 }, (_, at) => flowTo(a, at)));
  await clock.advance(40);
  expect(host.connections).toEqual([]);
});

test('nothing is begun after the end, and a walk under way is waited for', async () => {
  const { clock, cleaner, host } = start([flowTo(a)]);
  cleaner.add([flowTo(a)]);
  await clock.advance(20);
  cleaner.add([flowTo(b)]);
  const stopped = cleaner.stop();
  await clock.advance(10_000);
  await stopped;
  expect([host.walks.length, clock.pending]).toEqual([1, 0]);
});
