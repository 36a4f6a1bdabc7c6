import type { Health } from '../../../agent/health/usable.ts';
import { endVerdict } from '../../../agent/health/judge.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { syncKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { noApi } from '../../../agent/api.ts';
import { observeAndAssess, assess, everything, Foresight } from '../../../agent/read-host.ts';
import { ordinaryConfig as config } from '../../support/agent/running-agent.ts';
import { emptyState, renderingKey } from '../../../agent/decide/decision.ts';
import { Loop, converge, findUnknownRenderings, UnverifiedWrites } from '../../../agent/sync.ts';
import { notifyAll } from '../../../agent/agent.ts';
import type { Balance, Plan } from '../../../lib/dialect.ts';
import { plan } from '../../../agent/decide/plan.ts';
import { parseSave } from '../../../lib/iptables/rules.ts';
import { test, expect, describe } from '@jest/globals';

const apiservers = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'] as const;
const [one, two, three] = apiservers;
const well: Health = { state: 'ready', reason: '3 good answers', staleConnections: 'none' };
const ended: Health = { ...well, ...endVerdict };

test('an end is decided ahead as it would be decided then; nothing else is, and nothing for another input', async () => {
  const kernel = new FakeKernel(new FakeClock());
  syncKubeProxy(kernel, { family: 'ipv4', dialect: 'nft' }, apiservers.map(toEndpoint));
  const health = new Map<string, Health>(apiservers.map((text) => [text, well]));
  const askProxyMode = () => Promise.resolve(null);
  const ports = { kernel, askProxyMode, api: noApi, health: { watch: () => health } };
  const { observation, localRoutes, candidates } = await observeAndAssess(ports, config, emptyState);
  const input = { observation, localRoutes, candidates, health, memory: emptyState, open: new Set([one]) };
  const clock = new FakeClock();
  const foresight = new Foresight(config, clock);
  const end = (text: string) => ({ ...input, health: new Map([...health, [text, ended]]) });
  expect(foresight.find(end(three))).toBeNull();
  void foresight.foresee(input);
  expect(foresight.find(end(one))).toBeNull();
  await clock.advance(0);
  for (const text of apiservers) {
    expect(foresight.find(end(text))).toEqual(assess(end(text), config));
    expect(foresight.find(end(text))?.plan.transactions).not.toEqual([]);
  }
  const others = [
    input,
    { ...end(three), health: new Map([...end(three).health, [two, ended]]) },
    { ...end(three), health: new Map([...health, [three, { ...ended, reason: 'another' }]]) },
    { ...end(three), open: null },
    { ...end(three), weights: new Map([['10.0.0.50:6443', null]]) },
    { ...end(three), memory: { ...emptyState } },
    { ...end(three), observation: { ...observation } },
    { ...end(three), candidates: [...candidates] },
  ];
  expect(others.map((other) => foresight.find(other))).toEqual(others.map(() => null));
  foresight.forget();
  expect(foresight.find(end(three))).toBeNull();
});

/** Counts how often anybody asks it for one of its values, as each decision does. */
class CountingMap extends Map<string, Health> {
  asked = 0;

  override get(key: string): Health | undefined {
    this.asked += 1;
    return super.get(key);
  }
}

test('the loop writes what was decided ahead, and decides nothing then', async () => {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  syncKubeProxy(kernel, { family: 'ipv4', dialect: 'nft' }, apiservers.map(toEndpoint));
  let health = new CountingMap(apiservers.map((text) => [text, well]));
  const source = {
    watch: () => health,
    get view() {
      return health;
    },
  };
  const told = {
    report: notifyAll([]),
    keeper: { keep: () => undefined },
    serving: { keep: () => undefined },
  };
  const ask = () => Promise.resolve(null);
  const asked = { askProxyMode: ask, readListening: ask, api: noApi, health: source };
  const loop = new Loop({ kernel, clock, ...asked, ...told }, config, emptyState);
  loop.start();
  await clock.advance(4000);
  const writes = kernel.applied.length;
  let askedBefore = NaN;
  kernel.faults.beforeApply(() => (askedBefore = health.asked));
  health = new CountingMap([...health, [three, ended]]);
  loop.onHealthChange(true);
  await clock.advance(0);
  expect([kernel.applied.length - writes, askedBefore]).toEqual([1, 0]);
  await loop.stop();
});

const balance: Balance = {
  vip: toEndpoint('10.0.0.50:6443'),
  route: { kind: 'translate', backends: [toEndpoint('10.0.0.11:6443')] },
  masquerade: 'own',
};

async function readPlan(kernel: FakeKernel): Promise<Plan> {
  const { iptables } = await kernel.read(everything);
  return plan({ dialect: 'nft', balances: [balance] }, iptables.map(parseSave));
}

/** An older rule of ours, which a plan deletes by value, and which somebody deletes before that plan is written. */
function raceForOldHook(kernel: FakeKernel): void {
  const oldHook = 'OUTPUT -m comment --comment "vipnat:old" -j ACCEPT\nCOMMIT\n';
  kernel.run('ipv4', 'nft', `*nat\n-A ${oldHook}`);
  kernel.faults.beforeApply(() => {
    kernel.run('ipv4', 'nft', `*nat\n-D ${oldHook}`);
  });
}

describe('converge', () => {
  test('writes until nothing is left to do, answers what was wrong at first, and writes nothing when all is in sync', async () => {
    const kernel = new FakeKernel(new FakeClock());
    const first = await converge(kernel, () => readPlan(kernel));
    expect(first.tables.map(({ table }) => table)).toEqual(['filter', 'nat']);
    expect([(await converge(kernel, () => readPlan(kernel))).tables, kernel.applied.length]).toEqual([[], 1]);
  });

  test('looks again after a write that somebody was faster than', async () => {
    const kernel = new FakeKernel(new FakeClock());
    raceForOldHook(kernel);
    await converge(kernel, () => readPlan(kernel));
    expect([kernel.applied.length, (await readPlan(kernel)).tables]).toEqual([2, []]);
  });

  const notPermitted = { tool: 'iptables-nft-restore', code: 'TOOL_NOT_PERMITTED' } as const;
  const message =
    'vipnat wrote its rules, but they do not stay: PREROUTING has no jump to VIPNAT (nat, iptables-nft). Find the other program that changes them';

  test.each<[string, (kernel: FakeKernel) => void, object, number]>([
    ['gives up when somebody is faster five times in a row', raceForOldHook, { code: 'TOOL_FAILED' }, 5],
    [
      'ends at once with a failure that is no race',
      ({ faults }) => {
        faults.failNext(notPermitted);
      },
      ...([{ code: 'TOOL_NOT_PERMITTED' }, 1] as const),
    ],
    [
      'says which rules do not stay when writes succeed in vain',
      (kernel) => {
        kernel.run('ipv4', 'nft', '*nat\n-F PREROUTING\nCOMMIT\n');
      },
      ...([{ code: 'RULES_NOT_CONVERGING', message }, 5] as const),
    ],
  ])('%s', async (_, interfere, failure, writes) => {
    const kernel = new FakeKernel(new FakeClock());
    const lookAgain = () => {
      interfere(kernel);
      return readPlan(kernel);
    };
    await expect(converge(kernel, lookAgain)).rejects.toMatchObject(failure);
    expect(kernel.applied).toHaveLength(writes);
  });
});

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

const stranger = '-A VIPNAT-POSTROUTING -j DROP\n';
const hookId = /(-A PREROUTING .*vipnat:)[\w-]{16}/;
const addOption = (text: string) => text.replace('--random-fully', '--random-fully --odd');

test('a rule of ours that is printed otherwise is a suspect, by backend and id', () => {
  const unknownRenderings = findUnknownRenderings(planFor(addOption));
  const [[key, printed] = ['', '']] = unknownRenderings;
  expect(unknownRenderings.size).toBe(1);
  expect(key).toMatch(/^nft vipnat:[\w-]{16}$/);
  expect(printed).toMatch(/-j MASQUERADE --random-fully --odd$/);
});

test.each<[string, (text: string) => string, string | undefined]>([
  ['as it was written', (text) => text, undefined],
  ['not at all', (text) => text.replace(/-A VIPNAT-POSTROUTING .*\n/, ''), 'missing-rule'],
  ['behind a strange one', (text) => text.replace(/(?=-A VIPNAT-POSTROUTING )/, stranger), 'strange-rule'],
  // No tool changes it, and believing it would not make it right.
  ['with a comment not its own', (text) => text.replace(hookId, `$1${'1'.repeat(16)}`), 'edited-rule'],
])('a rule that is printed %s is none', (_, print, kind) => {
  const found = planFor(print);
  expect(found.tables.flatMap(({ drift }) => drift).at(0)?.kind).toBe(kind);
  expect(findUnknownRenderings(found).size).toBe(0);
});

describe('writes that no look has found in place', () => {
  const odd = planFor(addOption);

  test.each([
    ['two of them on end, with a look after each,', 'add learn add learn', true],
    ['two looks after one of them', 'add learn learn', false],
    ['one beside another that is forgotten', 'add learn reset add learn', false],
  ])('teach a print by %s: %s', (_, steps, isLearnt) => {
    const writes = new UnverifiedWrites();
    let memory = { ...emptyState, renderings: new Map([['nft vipnat:known', 'print']]) as Renderings };
    for (const step of steps.split(' ')) {
      if (step === 'add') writes.add();
      else if (step === 'reset') writes.reset();
      else memory = writes.learn(memory, odd);
    }
    expect(planFor(addOption, memory.renderings).tables.length === 0).toBe(isLearnt);
    expect(memory.renderings.get('nft vipnat:known')).toBe('print');
  });
});

type Renderings = (typeof emptyState)['renderings'];
