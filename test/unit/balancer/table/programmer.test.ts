import type { PortBalance, Balances } from '../../../../balancer/services/backends.ts';
import { Programmer } from '../../../../balancer/table/programmer.ts';
import { makePortBalance } from '../../../support/fakes/port-balance.ts';
import { FakeBalancerKernel } from '../../../support/fakes/balancer-kernel.ts';
import { beforeEach, describe, test, expect } from '@jest/globals';
import { readTable } from '../../../../balancer/table/table.ts';

/** A Service at an address of its own, with so many pods. */
function balance(service: string, pods: number, more: Partial<PortBalance> = {}): Balances {
  const backends = Array.from({ length: pods }, (_, at) => ({ address: `10.244.0.${at + 1}`, port: 8080 }));
  return [makePortBalance(backends, { service, addresses: [`10.0.9.${service.length}`], ...more })];
}

/** To a pod on another node. */
const relay = {
  ends: new Map([['10.244.0.9 . 8080', 'n2']]),
  weights: new Map([['10.244.0.9 . 8080', 1]]),
  nodes: new Map([['n2', '10.244.0.9']]),
};

let kernel: FakeBalancerKernel;
let programmer: Programmer;

beforeEach(() => {
  kernel = new FakeBalancerKernel();
  programmer = new Programmer(kernel as unknown as ConstructorParameters<typeof Programmer>[0]);
});

const update = (...changes: [string, Balances][]) => programmer.update(new Map(changes));
const slots = async (service: string) => [
  ...(readTable(await kernel.listTable('ip vipnat-lb'), 'ipv4')?.sets.get(`slots/${service}/tcp/80`)
    ?.elements ?? []),
];

describe('tables', () => {
  test('are listed once, and then a Service costs one transaction that names no other', async () => {
    await update(['default/a', balance('default/a', 2)], ['default/bb', balance('default/bb', 2)]);
    const { lists } = kernel;
    kernel.scripts.splice(0);
    await update(['default/a', balance('default/a', 3)]);
    expect(kernel.lists).toBe(lists);
    expect(kernel.scripts).toHaveLength(1);
    expect(kernel.scripts[0]).not.toContain('default/bb');
    await update(['default/a', balance('default/a', 3)]);
    expect(kernel.scripts).toHaveLength(1);
  });

  test('of a life before tell which ports it had; those of this life do not', async () => {
    await update(['default/a', balance('default/a', 2)], ['default/bb', balance('default/bb', 2)]);
    const next = new Programmer(kernel as unknown as ConstructorParameters<typeof Programmer>[0]);
    await next.update(new Map([['default/bb', balance('default/bb', 2)]]));
    await next.update(new Map([['default/ccc', balance('default/ccc', 2)]]));
    await next.compare();
    expect([...next.listFound(new Set())]).toEqual(['10.0.9.9 . 6 . 80', '10.0.9.10 . 6 . 80']);
    expect([...next.listFound(new Set(['10.0.9.9']))]).toEqual(['10.0.9.10 . 6 . 80']);
    expect(programmer.listFound(new Set()).size).toBe(0);
  });

  test.each([false, true])('take an endpoint for another by elements, else by nft: %s', async (needsTool) => {
    await update(['default/a', balance('default/a', 3)]);
    kernel.scripts.splice(0);
    kernel.needsTool = needsTool;
    const backends = [1, 9, 3].map((number) => ({ address: `10.244.0.${number}`, port: 8080 }));
    await update(['default/a', balance('default/a', 0, { backends })]);
    expect(kernel.changes).toHaveLength(needsTool ? 0 : 1);
    expect(kernel.scripts).toEqual([
      'delete element ip vipnat-lb slots/default/a/tcp/80 { 1 }\nadd element ip vipnat-lb slots/default/a/tcp/80 { 1 : 10.244.0.9 . 8080 }\n',
    ]);
    expect(programmer.isKnown).toBe(true);
  });

  test('have the slots that a replaced rule may still ask for until a second transaction', async () => {
    await update(['default/a', balance('default/a', 3)]);
    kernel.scripts.splice(0);
    await update(['default/a', balance('default/a', 2)]);
    const [now = '', later = ''] = kernel.scripts;
    expect(now).toContain('numgen random mod 2');
    expect(now).not.toContain('delete element');
    expect(later).toBe('delete element ip vipnat-lb slots/default/a/tcp/80 { 2 }\n');
    expect(await slots('default/a')).toHaveLength(2);
  });

  test('of a former life are taken over: their slots stay, and nothing is written that is there', async () => {
    await update(['default/a', balance('default/a', 3)]);
    const [one = { address: '', port: 0 }, two = one, three = one] =
      balance('default/a', 3)[0]?.backends ?? [];
    await update(['default/a', balance('default/a', 3, { backends: [two, three] })]);
    const before = await slots('default/a');
    programmer = new Programmer(kernel as unknown as ConstructorParameters<typeof Programmer>[0]);
    kernel.scripts.splice(0);
    await update(['default/a', balance('default/a', 3, { backends: [two, three] })]);
    expect(kernel.scripts).toEqual([]);
    expect(await slots('default/a')).toEqual(before);
  });

  test('look all packets up only while a Service is sent on to other nodes', async () => {
    const readChains = async () => readTable(await kernel.listTable('ip vipnat-lb'), 'ipv4')?.chains;
    const listHooks = async () =>
      [...((await readChains()) ?? [])].filter(([name, { hook }]) => name === 'relay' && hook !== null);
    await update(['default/a', balance('default/a', 2)]);
    expect(await listHooks()).toHaveLength(0);
    await update(['default/bb', balance('default/bb', 0, { relay, isHere: false })]);
    expect(await listHooks()).toHaveLength(1);
    // Not those of pods and programs of this node.
    const [first] = (await readChains())?.get('relay/default/bb/tcp/80')?.rules ?? [];
    expect(first).toBe('fib daddr . iif type != 2 accept');
    await update(['default/bb', []]);
    expect(await listHooks()).toHaveLength(0);
  });

  test('that somebody changed are repaired by a comparison, in place', async () => {
    await update(['default/a', balance('default/a', 2)]);
    await kernel.meddle('delete element ip vipnat-lb slots/default/a/tcp/80 { 0 }\n');
    kernel.scripts.splice(0);
    expect(await programmer.compare()).toEqual(['ipv4']);
    expect(kernel.scripts[0]).not.toContain('delete table');
    expect(await slots('default/a')).toHaveLength(2);
    expect(await programmer.compare()).toEqual([]);
  });

  test.each<[string, Partial<PortBalance>, Partial<PortBalance>]>([
    ['another affinity', { affinitySeconds: 600 }, { affinitySeconds: 900 }],
    ['no affinity', { affinitySeconds: 600 }, {}],
    ['another affinity, and is sent on', { affinitySeconds: 600, relay }, { affinitySeconds: 10_800, relay }],
    ['affinity, and is sent on', { relay }, { affinitySeconds: 600, relay }],
  ])('stay while one Service gets %s: no set of another one is touched', async (_, before, after) => {
    await update(['default/a', balance('default/a', 2, { affinitySeconds: 600 })]);
    await update(['default/bb', balance('default/bb', 2, before)]);
    const { lists } = kernel;
    kernel.scripts.splice(0);
    await update(['default/bb', balance('default/bb', 2, after)]);
    expect(kernel.lists).toBe(lists);
    expect(kernel.scripts.join('')).not.toMatch(/delete table|default\/a\//);
    expect([kernel.scripts.length, await programmer.compare()]).toEqual([2, []]);
  });

  test('that are not ours any more are known by their handles, and written again', async () => {
    await update(['default/a', balance('default/a', 2)]);
    expect(await programmer.areOwn()).toBe(true);
    await kernel.meddle('delete table ip vipnat-lb\n');
    expect([await programmer.areOwn(), programmer.isKnown]).toEqual([false, false]);
    await programmer.compare();
    expect(await slots('default/a')).toHaveLength(2);
    expect(await programmer.areOwn()).toBe(true);
  });

  test('whose hook is another are replaced whole', async () => {
    await update(['default/a', balance('default/a', 2)]);
    await kernel.meddle(
      'delete chain ip vipnat-lb prerouting\nadd chain ip vipnat-lb prerouting { type nat hook prerouting priority 7; policy accept; }\n',
    );
    kernel.scripts.splice(0);
    await programmer.compare();
    expect(kernel.scripts[0]).toContain('delete table ip vipnat-lb');
  });

  test('are as they were when a script is refused, and all of it is written after a comparison', async () => {
    await update(['default/a', balance('default/a', 2)]);
    kernel.failure = new Error('refused');
    await expect(update(['default/a', balance('default/a', 3)])).rejects.toThrow('refused');
    expect(programmer.isKnown).toBe(false);
    await update();
    expect(await slots('default/a')).toHaveLength(3);
  });

  test('of a family go with its last Service, and count for half a minute from when they come', async () => {
    await update(['default/a', balance('default/a', 2)]);
    expect(kernel.scripts[0]).toContain('add element ip vipnat-lb alive { 6, 17, 132, 1 }');
    expect(kernel.scripts[0]).not.toContain('ip6');
    await update(['default/a', []]);
    expect(await kernel.readHandles('vipnat-lb')).toEqual({ ipv4: null, ipv6: null });
  });

  test('hand an address on from one Service to another in one transaction', async () => {
    const addresses = ['10.0.9.77'];
    await update(
      ['default/a', balance('default/a', 2, { addresses })],
      ['default/cc', balance('default/cc', 1)],
    );
    kernel.scripts.splice(0);
    await update(['default/a', []], ['default/bb', balance('default/bb', 2, { addresses })]);
    expect(kernel.scripts[0]).toContain('delete element ip vipnat-lb vips { 10.0.9.77 . 6 . 80 }');
    expect(kernel.scripts[0]).toContain('vips { 10.0.9.77 . 6 . 80 : goto lb/default/bb/tcp/80 }');
  });
});

test('rules count for another half a minute whenever that is said, also those of a former life', async () => {
  await programmer.renew();
  expect(kernel.scripts).toEqual([]);
  await kernel.meddle(
    'add table ip6 vipnat-lb\nadd set ip6 vipnat-lb alive { type inet_proto; timeout 30s; }\n',
  );
  await programmer.renew();
  expect(kernel.scripts).toEqual([
    'flush set ip6 vipnat-lb alive\nadd element ip6 vipnat-lb alive { 6, 17, 132, 58 }\n',
  ]);
});
