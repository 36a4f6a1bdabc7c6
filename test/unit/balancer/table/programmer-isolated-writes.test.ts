import { IsolatedWrites, Programmer } from '../../../../balancer/table/programmer.ts';
import type { Balances } from '../../../../balancer/services/backends.ts';
import { makePortBalance } from '../../../support/fakes/port-balance.ts';
import { FakeBalancerKernel } from '../../../support/fakes/balancer-kernel.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { VipnatError } from '../../../../lib/errors.ts';
import { beforeEach, describe, test, expect } from '@jest/globals';
import type { BalancerKernel } from '../../../../lib/kernel/kernel.ts';

/** Service number `at`, with these pods. */
function balance(at: number, ...pods: readonly number[]): [string, Balances] {
  const backends = pods.map((pod) => ({ address: `10.244.0.${pod}`, port: 8080 }));
  const service = `default/s${at}`;
  return [service, [makePortBalance(backends, { service, addresses: [`10.0.9.${at}`] })]];
}

let kernel: FakeBalancerKernel;
let clock: FakeClock;
let writes: IsolatedWrites;

beforeEach(() => {
  kernel = new FakeBalancerKernel();
  clock = new FakeClock();
  const whole = kernel as unknown as BalancerKernel;
  const keepAlive = () => Promise.resolve();
  writes = new IsolatedWrites({ clock, kernel: whole, keepAlive }, new Programmer(whole));
});

const update = (...changes: readonly [string, Balances][]) => writes.update(new Map(changes));
const listProgrammed = async () =>
  [...(await kernel.listTable('ip vipnat-lb')).matchAll(/ : goto lb\/(default\/s\d+)\//g)].map(
    ([, service]) => service,
  );

test('new Services that nft does not write in time are written in halves', async () => {
  const apply = kernel.apply.bind(kernel);
  kernel.apply = (script) =>
    (script.match(/add chain ip vipnat-lb lb\//g) ?? []).length > 30
      ? Promise.reject(new VipnatError('TOOL_TIMED_OUT', 'nft was killed'))
      : apply(script);
  await update(...Array.from({ length: 100 }, (_, at) => balance(at + 1, 1, 2)));
  expect([(await listProgrammed()).length, writes.refused.size]).toEqual([100, 0]);
});

describe('a Service that nft refuses', () => {
  test('of a hundred is found by halves, and the others are programmed', async () => {
    kernel.refuses = /lb\/default\/s77\//;
    const hundred = Array.from({ length: 100 }, (_, at) => balance(at + 1, 1, 2));
    const written = await update(...hundred);
    expect(await listProgrammed()).toHaveLength(99);
    expect(written.get('default/s77')).toEqual([]);
    expect([...writes.refused]).toEqual([['default/s77', 'nft does not take lb/default/s77/']]);
    // The tables without a Service, all, and two for each half.
    expect(kernel.questions).toBeLessThanOrEqual(2 + 2 * Math.ceil(Math.log2(100)));
  });

  test('leaves the tables with what they had of it, and keeps no other change', async () => {
    await update(balance(1, 1, 2), balance(2, 1, 2));
    kernel.refuses = /10\.244\.0\.66/;
    await update(balance(1, 66, 2), balance(2, 1, 3));
    expect(await listProgrammed()).toEqual(['default/s2']);
    expect(await kernel.listTable('ip vipnat-lb')).toContain('10.244.0.3');
    await update(balance(2, 1, 4));
    expect(await kernel.listTable('ip vipnat-lb')).toContain('10.244.0.4');
  });

  test('is tried again alone, ever more seldom, as it is wanted by then', async () => {
    kernel.refuses = /lb\/default\/s1\//;
    await update(balance(1, 1), balance(2, 1));
    const waits: number[] = [];
    for (let round = 0; round < 9; round += 1) {
      waits.push(writes.dueMs);
      const before = kernel.questions;
      await update(balance(1, round + 10));
      expect(kernel.questions).toBe(before);
      await clock.advance(writes.dueMs);
      expect([...(await update()).keys()]).toEqual([]);
      expect(kernel.questions).toBe(before + 1);
    }
    expect(waits).toEqual([2, 4, 8, 16, 32, 64, 120, 120, 120].map((seconds) => seconds * 1000));
    kernel.refuses = null;
    await clock.advance(120_000);
    expect([...(await update()).keys()]).toEqual(['default/s1']);
    expect(await kernel.listTable('ip vipnat-lb')).toContain('10.244.0.18');
    expect([writes.refused.size, writes.dueMs]).toEqual([0, Infinity]);
  });

  test('although it was taken before is found when tables are compared', async () => {
    await update(balance(1, 1), balance(2, 1));
    await kernel.meddle('delete table ip vipnat-lb\n');
    kernel.refuses = /lb\/default\/s1\//;
    const { gone } = await writes.compare();
    expect([...gone]).toEqual([['default/s1', []]]);
    expect(await listProgrammed()).toEqual(['default/s2']);
  });
});

test('of a hundred bad ones not each is searched for, and the good ones come back one by one', async () => {
  kernel.refuses = /lb\/default\/s\d*[02468]\//;
  await update(...Array.from({ length: 200 }, (_, at) => balance(at + 1, 1)));
  expect(kernel.questions).toBeLessThanOrEqual(41);
  for (let round = 0; round < 200; round += 1) {
    await clock.advance(Math.max(1, writes.dueMs));
    await update();
  }
  expect(await listProgrammed()).toHaveLength(100);
});

test('where nft takes no table at all, nobody is to blame', async () => {
  kernel.refuses = /add table/;
  await expect(update(balance(1, 1), balance(2, 1))).rejects.toThrow('does not take add table');
  expect(writes.refused.size).toBe(0);
  kernel.refuses = null;
  await update();
  await update(balance(1, 1));
  expect(await listProgrammed()).toEqual(['default/s1', 'default/s2']);
});

test('where nft takes no table of one family, Services of the other one alone are programmed', async () => {
  kernel.refuses = /add table ip6/;
  const [service, ports] = balance(1, 1);
  const both = [...ports, makePortBalance([], { service, family: 'ipv6', addresses: ['fd77::1'] })];
  await update([service, both], balance(2, 1), balance(3, 1));
  expect(await listProgrammed()).toEqual(['default/s2', 'default/s3']);
  expect([...writes.refused.keys()]).toEqual(['default/s1']);
});

test('a Service that cannot be rendered keeps no other', async () => {
  const [service, [port]] = balance(1, 1);
  const broken = { ...port, backends: null } as unknown as Balances[number];
  await update([service, [broken]], balance(2, 1));
  expect(await listProgrammed()).toEqual(['default/s2']);
  expect([...writes.refused.keys()]).toEqual(['default/s1']);
});
