import { OwnTransactions, listReferred, toTyped } from '../../../../lib/kernel/nftables.ts';
import { test, expect } from '@jest/globals';

/** A kernel with a generation, and what counts the transactions of others. */
function start() {
  const kernel = { generation: 40 };
  const own = new OwnTransactions();
  const commit = (isDone = true) => {
    if (isDone) kernel.generation += 1;
    return Promise.resolve(isDone);
  };
  return { kernel, own, commit, count: () => own.countForeign(() => Promise.resolve(kernel.generation)) };
}

test('own transactions change nothing, and one of another does', async () => {
  const { kernel, own, commit, count } = start();
  const before = await count();
  await own.run(() => commit());
  await own.run(() => commit(false));
  expect(await count()).toBe(before);
  kernel.generation += 1;
  expect(await count()).not.toBe(before);
});

test('one that is under way is waited for: its transaction may be there before its end', async () => {
  const { own, commit, count } = start();
  const before = await count();
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const running = own.run(async () => {
    await commit();
    await promise;
    return true;
  });
  const counted = count();
  resolve(undefined);
  expect([await running, await counted]).toEqual([true, before]);
});

test('work that fails after its transaction counts as somebody else’s', async () => {
  const { own, commit, count } = start();
  const before = await count();
  const work = async () => {
    await commit();
    throw new Error('killed');
  };
  await expect(own.run(work)).rejects.toThrow('killed');
  expect(await count()).not.toBe(before);
});

const toRule = (target: string, set: string) => ({
  rule: { expr: [{ goto: { target } }, { match: { right: `@${set}` } }] },
});

test('what rules refer to is asked for by its name', () => {
  const endpoint = 'endpoint-5OJB2KTY-default/kubernetes/tcp/https__10.0.0.11/6443';
  const rules = [toRule(endpoint, 'affinity-A-default/kubernetes'), toRule(endpoint, 'affinity-B')];
  expect(listReferred(rules)).toEqual({ chains: [endpoint], sets: ['affinity-A-default/kubernetes'] });
});

test.each(['endpoint-a; flush ruleset', 'endpoint-a\nflush ruleset', 'endpoint-{', 'endpoint-$x'])(
  'a name that nft would read as more than a name is not asked for: %j',
  (target) => {
    expect(listReferred([toRule(target, 'affinity-x; flush ruleset')])).toEqual({ chains: [], sets: [] });
  },
);

test.each([
  [
    'typeof ip daddr . meta l4proto . th dport : verdict',
    'type ipv4_addr . inet_proto . inet_service : verdict',
  ],
  ['typeof ip saddr . th dport', 'typeof ip saddr . th dport'],
])('of a set declared by expressions, types are told where all are known: %s', (printed, declared) => {
  expect(toTyped(printed)).toBe(declared);
});
