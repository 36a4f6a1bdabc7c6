import type { BalancedFlow } from '../../../../lib/kernel/port.ts';
import { test, expect, describe } from '@jest/globals';
import { balance, a, b, startFlowWorld as start, flowTo } from '../../../support/fakes/flow-world.ts';
import { listGoneFlows, listEarlyFlows, takesNone, Drains } from '../../../../balancer/table/stale-flows.ts';
import { SettledBalances } from '../../../../balancer/table/shares.ts';
import { VipnatError } from '../../../../lib/errors.ts';
import type { PortBalance } from '../../../../balancer/services/backends.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';

const backendsOf = (flows: readonly BalancedFlow[]) => flows.map(({ backend }) => backend.address);

test.each(['TCP', 'SCTP'])(
  '%s connections are forgotten with their endpoint, and not while it ends',
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
  // No less than all of them.
  cleaner.add([flowTo(a)], takesNone);
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

test.each([
  ['is not ready', [balance('TCP', [b], [a, b])], 'open, b'],
  ['is not ready for 199 ms', [balance('TCP', [b], [a, b]), balance('TCP', [a, b])], 'open, begun, b'],
  ['is left to kube-proxy', [{ ...balance('TCP', [], [a, b]), isHere: false }], 'open, begun, b'],
  ['is gone', [balance('TCP', [b])], 'b'],
])('of an endpoint that %s, these connections stay', async (_, steps, expected) => {
  const flows = { open: flowTo(a), begun: flowTo(a), b: flowTo(b) };
  const world = start(Object.values(flows));
  world.unanswered.add(flows.begun);
  const settled = new SettledBalances({
    ...world,
    ...{ onDrains: () => undefined, onShares: () => undefined, listFormerPorts: () => new Set() },
  });
  const settle = (one: PortBalance) => {
    settled.settle(new Map([['default/web', [one]]]), () => false);
  };
  settle(balance('TCP', [a, b]));
  await world.clock.advance(10_000);
  for (const step of steps) {
    settle(step);
    await world.clock.advance(199);
    const isGone = !step.present.includes(a);
    expect(world.host.connections.includes(flows.begun)).toBe(!isGone);
  }
  await world.clock.advance(1000);
  const left = Object.entries(flows).filter(([, flow]) => world.host.connections.includes(flow));
  expect(left.map(([name]) => name).join(', ')).toBe(expected);
  await settled.stop();
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

describe('endpoints that drain', () => {
  const web = 'default/web';
  /** Port 80 while a drains, with this drain timeout. */
  const draining = (drainMs: number | null = null): PortBalance => ({
    ...balance('TCP', [b], [a, b]),
    draining: [a],
    drainMs,
  });

  test('are said at once; their open connections are counted each five seconds, and only while there are any', async () => {
    const ended = flowTo(a);
    const world = start([flowTo(a), flowTo(a), ended, flowTo(b)]);
    const { clock, drains, host, changes } = world;
    world.ended.add(ended);
    drains.take(web, [balance('TCP', [a, b])]);
    await clock.advance(10_000);
    expect([host.walks, changes]).toEqual([[], []]);
    drains.take(web, [draining()]);
    expect(drains.list).toEqual([
      { service: web, endpoint: a.address, since: '2026-01-01T00:00:10.000Z', connections: null },
    ]);
    await clock.advance(30_000);
    expect(host.walks.length).toBe(6);
    host.connections = [flowTo(a)];
    await clock.advance(6000);
    drains.take(web, [balance('TCP', [b])]);
    await clock.advance(60_000);
    expect([host.walks.length, changes]).toEqual([8, [[null], [2], [1], []]]);
    expect(clock.pending).toBe(0);
  });

  test('cost a hundredth of a processor at most, however long a walk takes', async () => {
    const { clock, drains, host } = start([flowTo(a)], 1500);
    drains.take(web, [draining()]);
    await clock.advance(599_000);
    expect(host.walks.length).toBe(4);
  });

  test('keep their connections until their time is over, and nothing longer', async () => {
    const { clock, drains, host, lines } = start([flowTo(a), flowTo(b)]);
    drains.take(web, [draining(30_000)]);
    await clock.advance(20_000);
    // Something else of the Service changes: their time goes on.
    drains.take(web, [draining(30_000)]);
    await clock.advance(9900);
    expect(host.connections).toHaveLength(2);
    await clock.advance(200);
    expect([host.connections, lines()]).toEqual([
      [flowTo(b)],
      ['2 connections of 10.0.9.10:80 to 10.244.1.2:8080, whose drain timeout is over, are forgotten'],
    ]);
  });

  test('that serve again keep their connections, also those that were about to be cut', async () => {
    const { clock, drains, host } = start([flowTo(a), flowTo(b)]);
    drains.take(web, [draining(1000)]);
    await clock.advance(500);
    drains.take(web, [balance('TCP', [a, b])]);
    await clock.advance(10_000);
    drains.take(web, [draining(1000)]);
    // The walk that counts ends before; then it rests.
    await clock.advance(1001);
    drains.take(web, [balance('TCP', [a, b])]);
    await clock.advance(20_000);
    expect(host.connections).toHaveLength(2);
  });

  test('take a time that changes meanwhile, and none at all', async () => {
    const { clock, drains, host } = start([flowTo(a)]);
    drains.take(web, [draining(3_600_000 * 24 * 365)]);
    await clock.advance(20_000);
    expect(host.connections).toHaveLength(1);
    drains.take(web, [draining(10_000)]);
    await clock.advance(5000);
    expect(host.connections).toEqual([]);
    drains.take(web, [draining(0)]);
    drains.stop();
  });

  test('whose time is over are cut once, however often tables change afterwards', async () => {
    const cuts: unknown[] = [];
    const clock = new FakeClock();
    const drains = new Drains({
      clock,
      cut: (flows) => cuts.push(flows),
      keep: () => undefined,
      onChange: () => undefined,
    });
    drains.take(web, [draining(1000)]);
    await clock.advance(999);
    expect(cuts).toHaveLength(0);
    await clock.advance(1);
    for (let change = 0; change < 3; change += 1) {
      drains.take(web, [draining(1000)]);
      await clock.advance(5000);
    }
    expect(cuts).toHaveLength(1);
    drains.stop();
  });

  test('of UDP have nothing to wait for', async () => {
    const { clock, drains, host } = start([]);
    drains.take(web, [{ ...draining(1000), protocol: 'UDP' }]);
    await clock.advance(10_000);
    expect([host.walks, drains.list]).toEqual([[], []]);
  });
});
