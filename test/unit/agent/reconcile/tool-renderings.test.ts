import { describe, expect, test } from '@jest/globals';
import { findSuspects, learnPrints, UnverifiedWrites } from '../../../../agent/reconcile/tool-renderings.ts';
import { emptyMemory, printKey } from '../../../../agent/observe/memory.ts';
import { plan, type Plan } from '../../../../agent/decide/plan.ts';
import { parseSave } from '../../../../lib/netfilter/iptables/parse.ts';
import { type Balance } from '../../../../lib/netfilter/rules/balance.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';

const balance: Balance = {
  vip: toEndpoint('10.0.0.50:6443'),
  route: { way: 'direct', backends: [toEndpoint('10.0.0.11:6443')] },
  masquerade: 'own',
};
const wanted = { backend: 'nft', balances: [balance] } as const;

/** The plan for a host with our rules, when its tool prints them this way. */
function planFor(print: (text: string) => string, prints = emptyMemory.prints): Plan {
  const kernel = new FakeKernel(new FakeClock());
  const read = (text: string) => [parseSave({ family: 'ipv4', backend: 'nft', text })];
  for (const { input } of plan(wanted, read('')).transactions) kernel.run('ipv4', 'nft', input);
  return plan(
    wanted,
    read(print(kernel.show('ipv4', 'nft'))),
    (backend, id, printed) => prints.get(printKey(backend, id)) === printed,
  );
}

const addOption = (text: string) => text.replace('--random-fully', '--random-fully --odd');

test('a rule that is printed as it was written is no suspect', () => {
  expect(findSuspects(planFor((text) => text)).size).toBe(0);
});

test('a rule of ours that is printed otherwise is one, by backend and id', () => {
  const suspects = findSuspects(planFor(addOption));
  const [[key, printed] = ['', '']] = suspects;
  expect(suspects.size).toBe(1);
  expect(key).toMatch(/^nft vipnat:[\w-]{16}$/);
  expect(printed).toMatch(/-j MASQUERADE --random-fully --odd$/);
});

test('a rule that is missing, strange or of another id is none', () => {
  const deleted = planFor((text) => text.replace(/-A VIPNAT-POSTROUTING .*\n/, ''));
  const strange = planFor((text) =>
    text.replace(/(?=-A VIPNAT-POSTROUTING )/, '-A VIPNAT-POSTROUTING -j DROP\n'),
  );
  expect(findSuspects(deleted).size + findSuspects(strange).size).toBe(0);
});

test('a hook with a comment that is not its own is none: no tool changes it, and believing it would not make it right', () => {
  const older = planFor((text) => text.replace(/(-A PREROUTING .*vipnat:)[\w-]{16}/, '$1' + '1'.repeat(16)));
  const kinds = older.tables.flatMap(({ drift }) => drift.map(({ kind }) => kind));
  expect(kinds).toContain('edited-rule');
  expect(findSuspects(older).size).toBe(0);
});

test('a print is believed when it came twice on end, and then the plan is empty', () => {
  const suspects = findSuspects(planFor(addOption));
  expect(learnPrints(emptyMemory, new Map(), suspects)).toBe(emptyMemory);
  const { prints } = learnPrints(emptyMemory, suspects, suspects);
  expect(planFor(addOption, prints).tables).toEqual([]);
});

test('a print that changes is not believed', () => {
  const before = findSuspects(planFor(addOption));
  const now = findSuspects(planFor((text) => text.replace('--random-fully', '--random-fully --other')));
  expect(learnPrints(emptyMemory, before, now)).toBe(emptyMemory);
});

test('what was believed is kept', () => {
  const memory = { ...emptyMemory, prints: new Map([['nft vipnat:known', 'print']]) };
  const suspects = findSuspects(planFor(addOption));
  expect(learnPrints(memory, suspects, suspects).prints.get('nft vipnat:known')).toBe('print');
});

describe('writes that no look has found in place', () => {
  const odd = planFor(addOption);

  test('teach a print by two of them on end, a look after each', () => {
    const writes = new UnverifiedWrites();
    writes.add();
    expect(writes.learn(emptyMemory, odd)).toBe(emptyMemory);
    writes.add();
    expect(planFor(addOption, writes.learn(emptyMemory, odd).prints).tables).toEqual([]);
  });

  test('teach nothing by two looks after one of them', () => {
    const writes = new UnverifiedWrites();
    writes.add();
    writes.learn(emptyMemory, odd);
    expect(writes.learn(emptyMemory, odd)).toBe(emptyMemory);
  });

  test('teach nothing beside one that is forgotten', () => {
    const writes = new UnverifiedWrites();
    writes.add();
    writes.learn(emptyMemory, odd);
    writes.forget();
    writes.add();
    expect(writes.learn(emptyMemory, odd)).toBe(emptyMemory);
    expect(writes.count).toBe(1);
  });
});
