import { expect, test } from '@jest/globals';
import { type Config } from '../../../../config/config.ts';
import { applyPlan, observeAndAssess } from '../../../../agent/reconcile/look.ts';
import { noApi } from '../../../../agent/api/cluster-api.ts';
import { type HealthView } from '../../../../agent/health/usable.ts';
import { emptyState } from '../../../../agent/observe/reconcile-state.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { nobodyProbes } from '../../../support/fakes/health.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';

const config: Config = {
  ...ordinaryConfig,
  proxyMode: 'none',
  iptables: 'legacy',
  endpoints: ['10.77.0.11:6443', '10.77.0.12:6443'].map(toEndpoint),
};

test('apiservers that only our rules in the other backend name are not lost when the backend changes', async () => {
  const kernel = new FakeKernel();
  const ports = { kernel, askProxyMode: () => Promise.resolve(null), health: nobodyProbes, api: noApi };
  await applyPlan(kernel, (await observeAndAssess(ports, config, emptyState)).plan);

  const later = { ...config, iptables: 'nft' as const, endpoints: [] };
  const { decisions, plan } = await observeAndAssess(ports, later, emptyState);
  expect(decisions).toMatchObject([{ way: 'direct', backends: config.endpoints }]);

  await applyPlan(kernel, plan);
  expect(kernel.show('ipv4', 'nft')).toContain('--to-destination 10.77.0.12:6443');
  expect(kernel.show('ipv4', 'legacy')).not.toContain('VIPNAT');
});

test('apiservers that only our rules name are remembered while one of them is dead, and the rules no longer name it', async () => {
  const kernel = new FakeKernel();
  const ports = { kernel, askProxyMode: () => Promise.resolve(null), health: nobodyProbes, api: noApi };
  await applyPlan(kernel, (await observeAndAssess(ports, config, emptyState)).plan);
  const forgetful = { ...config, endpoints: [] };
  const { memory } = await observeAndAssess(ports, forgetful, emptyState);
  expect(memory.endpoints.ipv4?.value).toEqual(config.endpoints);

  const dead: HealthView = new Map([
    ['10.77.0.11:6443', { state: 'dead', reason: 'connection refused', staleConnections: 'none' }],
  ]);
  const without = await observeAndAssess({ ...ports, health: { watch: () => dead } }, forgetful, memory);
  await applyPlan(kernel, without.plan);
  expect(kernel.show('ipv4', 'legacy')).not.toContain('--to-destination 10.77.0.11:6443');
  const { memory: kept, decisions } = await observeAndAssess(ports, forgetful, without.memory);
  expect(kept.endpoints.ipv4?.value).toEqual(config.endpoints);
  expect(decisions).toMatchObject([{ way: 'direct', backends: config.endpoints }]);
});
