import { describe, expect, test } from '@jest/globals';
import { a, b, balance, flowTo, startFlowWorld as start } from '../../../support/fakes/flow-world.ts';
import { type PortBalance } from '../../../../balancer/decide/balanced-service.ts';
import { Drains } from '../../../../balancer/program/drains.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';

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
