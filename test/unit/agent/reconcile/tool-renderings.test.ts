import { describe, expect, test } from '@jest/globals';
import {
  findUnknownRenderings,
  learnRenderings,
  UnverifiedWrites,
} from '../../../../agent/reconcile/tool-renderings.ts';
import { emptyState, renderingKey } from '../../../../agent/observe/reconcile-state.ts';
import { plan } from '../../../../agent/decide/plan.ts';
import { parseSave } from '../../../../lib/netfilter/iptables/parse.ts';
import { type Balance } from '../../../../lib/netfilter/rules/balance.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { type Plan } from '../../../../lib/netfilter/plan/table-plan.ts';

const balance: Balance = {
  vip: toEndpoint('10.0.0.50:6443'),
  route: { kind: 'translate', backends: [toEndpoint('10.0.0.11:6443')] },
  masquerade: 'own',
};
const wanted = { dialect: 'nft', balances: [balance] } as const;

/** The plan for a host with our rules, when its tool prints them this way. */
function planFor(print: (text: string) => string, renderings = emptyState.renderings): Plan {
  const kernel = new FakeKernel(new FakeClock());
  const read = (text: string) => [parseSave({ family: 'ipv4', dialect: 'nft', text })];
  for (const { input } of plan(wanted, read('')).transactions) kernel.run('ipv4', 'nft', input);
  return plan(
    wanted,
    read(print(kernel.show('ipv4', 'nft'))),
    (dialect, id, printed) => renderings.get(renderingKey(dialect, id)) === printed,
  );
}

const addOption = (text: string) => text.replace('--random-fully', '--random-fully --odd');

test('a rule that is printed as it was written is no suspect', () => {
  expect(findUnknownRenderings(planFor((text) => text)).size).toBe(0);
});

test('a rule of ours that is printed otherwise is one, by backend and id', () => {
  const unknownRenderings = findUnknownRenderings(planFor(addOption));
  const [[key, printed] = ['', '']] = unknownRenderings;
  expect(unknownRenderings.size).toBe(1);
  expect(key).toMatch(/^nft vipnat:[\w-]{16}$/);
  expect(printed).toMatch(/-j MASQUERADE --random-fully --odd$/);
});

test('a rule that is missing, strange or of another id is none', () => {
  const deleted = planFor((text) => text.replace(/-A VIPNAT-POSTROUTING .*\n/, ''));
  const strange = planFor((text) =>
    text.replace(/(?=-A VIPNAT-POSTROUTING )/, '-A VIPNAT-POSTROUTING -j DROP\n'),
  );
  expect(findUnknownRenderings(deleted).size + findUnknownRenderings(strange).size).toBe(0);
});

test('a hook with a comment that is not its own is none: no tool changes it, and believing it would not make it right', () => {
  const older = planFor((text) => text.replace(/(-A PREROUTING .*vipnat:)[\w-]{16}/, '$1' + '1'.repeat(16)));
  const kinds = older.tables.flatMap(({ drift }) => drift.map(({ kind }) => kind));
  expect(kinds).toContain('edited-rule');
  expect(findUnknownRenderings(older).size).toBe(0);
});

test('a print is believed when it came twice on end, and then the plan is empty', () => {
  const unknownRenderings = findUnknownRenderings(planFor(addOption));
  expect(learnRenderings(emptyState, new Map(), unknownRenderings)).toBe(emptyState);
  const { renderings } = learnRenderings(emptyState, unknownRenderings, unknownRenderings);
  expect(planFor(addOption, renderings).tables).toEqual([]);
});

test('a print that changes is not believed', () => {
  const before = findUnknownRenderings(planFor(addOption));
  const now = findUnknownRenderings(
    planFor((text) => text.replace('--random-fully', '--random-fully --other')),
  );
  expect(learnRenderings(emptyState, before, now)).toBe(emptyState);
});

test('what was believed is kept', () => {
  const memory = { ...emptyState, renderings: new Map([['nft vipnat:known', 'print']]) };
  const unknownRenderings = findUnknownRenderings(planFor(addOption));
  expect(
    learnRenderings(memory, unknownRenderings, unknownRenderings).renderings.get('nft vipnat:known'),
  ).toBe('print');
});

describe('writes that no look has found in place', () => {
  const odd = planFor(addOption);

  test('teach a print by two of them on end, a look after each', () => {
    const writes = new UnverifiedWrites();
    writes.add();
    expect(writes.learn(emptyState, odd)).toBe(emptyState);
    writes.add();
    expect(planFor(addOption, writes.learn(emptyState, odd).renderings).tables).toEqual([]);
  });

  test('teach nothing by two looks after one of them', () => {
    const writes = new UnverifiedWrites();
    writes.add();
    writes.learn(emptyState, odd);
    expect(writes.learn(emptyState, odd)).toBe(emptyState);
  });

  test('teach nothing beside one that is forgotten', () => {
    const writes = new UnverifiedWrites();
    writes.add();
    writes.learn(emptyState, odd);
    writes.reset();
    writes.add();
    expect(writes.learn(emptyState, odd)).toBe(emptyState);
  });

  test('are too many when there are three on end, and none are after one that is forgotten', () => {
    const writes = new UnverifiedWrites();
    const add = () => {
      writes.add();
      return writes.areTooMany;
    };
    expect([add(), add(), add()]).toEqual([false, false, true]);
    writes.reset();
    expect([add(), add(), add()]).toEqual([false, false, true]);
  });
});
