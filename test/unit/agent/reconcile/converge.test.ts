import { describe, expect, test } from '@jest/globals';
import { converge, isRace } from '../../../../agent/reconcile/converge.ts';
import { everything } from '../../../../agent/reconcile/look.ts';
import { plan } from '../../../../agent/decide/plan.ts';
import { VipnatError } from '../../../../lib/text/errors.ts';
import { parseSave } from '../../../../lib/netfilter/iptables/parse.ts';
import { type Balance } from '../../../../lib/netfilter/rules/balance.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { type Plan } from '../../../../lib/netfilter/plan/table-plan.ts';

const balance: Balance = {
  vip: toEndpoint('10.0.0.50:6443'),
  route: { kind: 'translate', backends: [toEndpoint('10.0.0.11:6443')] },
  masquerade: 'own',
};

async function lookForPlan(kernel: FakeKernel): Promise<Plan> {
  const { iptables } = await kernel.read(everything);
  return plan({ dialect: 'nft', balances: [balance] }, iptables.map(parseSave));
}

/** An older rule of ours, which a plan deletes by value: what somebody can be faster with. */
function addOldHook(kernel: FakeKernel): void {
  kernel.run('ipv4', 'nft', '*nat\n-A OUTPUT -m comment --comment "vipnat:old" -j ACCEPT\nCOMMIT\n');
}

function deleteOldHook(kernel: FakeKernel): void {
  kernel.run('ipv4', 'nft', '*nat\n-D OUTPUT -m comment --comment "vipnat:old" -j ACCEPT\nCOMMIT\n');
}

describe('converge', () => {
  test('writes until nothing is left to do, and answers what was wrong at first', async () => {
    const kernel = new FakeKernel(new FakeClock());
    const first = await converge(kernel, () => lookForPlan(kernel));
    expect(first.tables.map(({ table }) => table)).toEqual(['filter', 'nat']);
    expect(kernel.applied).toHaveLength(1);
    expect((await lookForPlan(kernel)).tables).toEqual([]);
  });

  test('writes nothing when all is in sync', async () => {
    const kernel = new FakeKernel(new FakeClock());
    await converge(kernel, () => lookForPlan(kernel));
    expect((await converge(kernel, () => lookForPlan(kernel))).tables).toEqual([]);
    expect(kernel.applied).toHaveLength(1);
  });

  test('looks again after a write that somebody was faster than', async () => {
    const kernel = new FakeKernel(new FakeClock());
    addOldHook(kernel);
    kernel.faults.beforeApply(() => {
      deleteOldHook(kernel);
    });
    await converge(kernel, () => lookForPlan(kernel));
    expect(kernel.applied).toHaveLength(2);
    expect((await lookForPlan(kernel)).tables).toEqual([]);
  });

  test('gives up when somebody is faster five times in a row', async () => {
    const kernel = new FakeKernel(new FakeClock());
    const lookAgain = () => {
      addOldHook(kernel);
      kernel.faults.beforeApply(() => {
        deleteOldHook(kernel);
      });
      return lookForPlan(kernel);
    };
    await expect(converge(kernel, lookAgain)).rejects.toMatchObject({ code: 'TOOL_FAILED' });
    expect(kernel.applied).toHaveLength(5);
  });

  test('ends at once with a failure that is no race', async () => {
    const kernel = new FakeKernel(new FakeClock());
    kernel.faults.failNext({ tool: 'iptables-nft-restore', code: 'TOOL_NOT_PERMITTED' });
    await expect(converge(kernel, () => lookForPlan(kernel))).rejects.toMatchObject({
      code: 'TOOL_NOT_PERMITTED',
    });
    expect(kernel.applied).toHaveLength(1);
  });

  test('says which rules do not stay when writes succeed in vain', async () => {
    const kernel = new FakeKernel(new FakeClock());
    const lookInVain = () => {
      kernel.run('ipv4', 'nft', '*nat\n-F PREROUTING\nCOMMIT\n');
      return lookForPlan(kernel);
    };
    const failure = await converge(kernel, lookInVain).catch((error: unknown) => error);
    expect(failure).toMatchObject({
      code: 'RULES_NOT_CONVERGING',
      message:
        'vipnat wrote its rules, but they do not stay: PREROUTING has no jump to VIPNAT (nat, iptables-nft). Find the other program that changes them',
    });
    expect(kernel.applied).toHaveLength(5);
  });
});

test('only a refused transaction is a race', () => {
  expect(isRace(new VipnatError('TOOL_FAILED', 'x'))).toBe(true);
  expect(isRace(new VipnatError('TOOL_TIMED_OUT', 'x'))).toBe(false);
  expect(isRace(new Error('x'))).toBe(false);
});
