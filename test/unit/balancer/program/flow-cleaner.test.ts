import { describe, expect, test } from '@jest/globals';
import { silentNode } from '../../../../balancer/program/flow-cleaner.ts';
import { listEarlyFlows, listGoneFlows, listSilentFlows } from '../../../../balancer/program/gone-flows.ts';
import { type BalancedFlow } from '../../../../lib/kernel/port.ts';
import { VipnatError } from '../../../../lib/text/errors.ts';
import { a, b, balance, flowTo, startFlowWorld as start } from '../../../support/fakes/flow-world.ts';

const backendsOf = (flows: readonly BalancedFlow[]) => flows.map(({ backend }) => backend.address);

test.each(['TCP', 'SCTP'])(
  '%s connections are forgotten when their endpoint is gone, and not while it ends',
  (protocol) => {
    const before = [balance(protocol, [a, b])];
    expect(listGoneFlows(before, [balance(protocol, [b], [a, b])])).toEqual([]);
    expect(backendsOf(listGoneFlows(before, [balance(protocol, [b])]))).toEqual([a.address]);
    expect(backendsOf(listGoneFlows(before, []))).toEqual([a.address, b.address]);
  },
);

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

test('a sweep finds connections to ports that were balanced before, and are not now', async () => {
  const strangers = [flowTo(a, 444), { ...flowTo(a, 443), protocol: 'udp' as const }];
  const { clock, cleaner, host, formerPorts } = start([flowTo(a), flowTo(a, 443), ...strangers]);
  formerPorts.add('10.0.9.10 . 6 . 80').add('10.0.9.10 . 6 . 443');
  cleaner.sweep();
  await clock.advance(40);
  expect(host.connections).toEqual([flowTo(a), ...strangers]);
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

test('of a node that does not answer, only connections are forgotten that were never answered', async () => {
  const [open, begun] = [flowTo(a), flowTo(a)];
  const { clock, cleaner, host, unanswered } = start([open, begun, flowTo(b)]);
  unanswered.add(begun);
  const [before, after] = [balance('TCP', [a, b]), { ...balance('TCP', [b], [a, b]), silent: [a] }];
  expect(listSilentFlows([after], [after])).toEqual([]);
  cleaner.add(listSilentFlows([before], [after]), silentNode);
  await clock.advance(1000);
  expect(host.connections).toEqual([open, flowTo(b)]);
});

describe('UDP clients that sent before their port was served', () => {
  const vip = { family: 'ipv4' as const, address: '10.0.9.10', port: 80 };
  const udp: BalancedFlow = { protocol: 'udp', vip, backend: vip };
  const tcp: BalancedFlow = { ...udp, protocol: 'tcp' };
  const [served, refused] = [balance('UDP', [a]), balance('UDP', [])];

  test('are sent to a pod as soon as it is, and no others are looked at', async () => {
    expect(listEarlyFlows([], [served, balance('TCP', [a])])).toEqual([udp]);
    expect(listEarlyFlows([refused], [served])).toEqual([udp]);
    expect([listEarlyFlows([served], [served]), listEarlyFlows([], [refused])]).toEqual([[], []]);
    const { clock, cleaner, host, lines } = start([udp, tcp, flowTo(a)]);
    cleaner.add(listEarlyFlows([], [served]), 'which was not served yet');
    await clock.advance(40);
    expect(host.connections).toEqual([tcp, flowTo(a)]);
    expect(lines()).toEqual([
      '2 connections of 10.0.9.10:80 to 10.0.9.10:80, which was not served yet, are forgotten',
    ]);
  });

  test('are found by a sweep, and those of ports that nobody balances are not', async () => {
    const other = { ...udp, vip: { ...vip, port: 53 }, backend: { ...vip, port: 53 } };
    const { clock, cleaner, host, formerPorts } = start([udp, tcp, other]);
    formerPorts.add('10.0.9.10 . 17 . 53');
    cleaner.sweep();
    await clock.advance(40);
    expect(host.connections).toEqual([tcp, other]);
  });
});

test('a sweep leaves connections to an endpoint that came while it walks', async () => {
  const { clock, cleaner, host } = start([flowTo(a), flowTo(b)]);
  cleaner.sweep();
  await clock.advance(20);
  cleaner.keep([flowTo(b)]);
  await clock.advance(40);
  expect([host.walks.length, host.connections]).toEqual([1, [flowTo(a), flowTo(b)]]);
  cleaner.sweep();
  await clock.advance(10_000);
  expect(host.connections).toEqual([flowTo(a)]);
});
