import { expect, test } from '@jest/globals';
import { assess } from '../../../../agent/decide/assess.ts';
import { endVerdict } from '../../../../agent/health/end.ts';
import { type Health } from '../../../../agent/health/usable.ts';
import { emptyState } from '../../../../agent/observe/reconcile-state.ts';
import { Foresight } from '../../../../agent/reconcile/foresight.ts';
import { Loop } from '../../../../agent/reconcile/loop.ts';
import { observeAndAssess } from '../../../../agent/reconcile/look.ts';
import { tellAll } from '../../../../agent/report/loop-observer.ts';
import { noApi } from '../../../../agent/api/cluster-api.ts';
import { ordinaryConfig as config } from '../../../support/agent/running-agent.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';

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
  const told = { report: tellAll([]), keeper: { keep: () => undefined }, serving: { keep: () => undefined } };
  const ask = () => Promise.resolve(null);
  const asked = { askProxyMode: ask, readListening: ask, api: noApi, health: source };
  const loop = new Loop({ kernel, clock, ...asked, ...told }, config, emptyState);
  loop.start();
  await clock.advance(4000);
  const writes = kernel.applied.length;
  let askedBefore = NaN;
  kernel.faults.beforeApply(() => (askedBefore = health.asked));
  health = new CountingMap([...health, [three, ended]]);
  loop.onHealthChange('urgent');
  await clock.advance(0);
  expect([kernel.applied.length - writes, askedBefore]).toEqual([1, 0]);
  await loop.stop();
});
