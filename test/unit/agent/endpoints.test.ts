import { type ApiView, noApi } from '../../../agent/api.ts';
import { emptyState } from '../../../agent/decide/decision.ts';
import { restoreCaptures, lookOnce } from '../../support/agent/captured-host.ts';
import { ordinaryConfig } from '../../support/agent/running-agent.ts';
import { describe, test, expect } from '@jest/globals';
import type { Config } from '../../../config/options.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { nobodyProbes } from '../../support/fakes/health.ts';
import { applyPlan } from '../../../agent/sync.ts';
import { observeAndAssess } from '../../../agent/read-host.ts';
import type { HealthView } from '../../../agent/health/usable.ts';
import { type OwnSources, findOwnEndpoint } from '../../../agent/endpoints.ts';

const sticky = 'iptables-nft-save.client-ip-affinity.txt';
const plain = 'iptables-nft-save.three-endpoints.txt';
const api: ApiView = {
  endpoints: {},
  clusterIps: { ipv4: '10.96.0.1' },
  affinitySeconds: 600,
  refused: [],
  isCurrent: true,
};

/** For how long clients stay, in the only VIP's decision. */
async function affinityAt(capture: string | null, memory = emptyState): Promise<number | null | undefined> {
  const kernel = restoreCaptures(capture === null ? [] : [capture]);
  return (await lookOnce(kernel, ordinaryConfig, { memory })).decisions[0]?.affinitySeconds;
}

describe('for how long a client stays with its apiserver', () => {
  test('is what the API says, also when kube-proxy has it otherwise', async () => {
    expect(await affinityAt(sticky, { ...emptyState, api })).toBe(600);
    expect(await affinityAt(sticky, { ...emptyState, api: { ...api, affinitySeconds: null } })).toBeNull();
  });

  test("is what kube-proxy's rules say while nobody has heard of the Service", async () => {
    expect([await affinityAt(sticky), await affinityAt(plain)]).toEqual([10_800, null]);
    const unheardOf = { ...api, clusterIps: {}, affinitySeconds: null };
    expect(await affinityAt(sticky, { ...emptyState, api: unheardOf })).toBe(10_800);
  });

  test('is remembered when its rules are gone', async () => {
    const kernel = restoreCaptures([sticky]);
    const { memory } = await lookOnce(kernel, ordinaryConfig);
    expect([await affinityAt(null, memory), await affinityAt(plain, memory)]).toEqual([10_800, null]);
  });

  test('is read from rules of ours by a process that was not there: it goes on as the one before', async () => {
    const { memory } = await lookOnce(restoreCaptures([sticky]), ordinaryConfig);
    const gone = restoreCaptures([]);
    await applyPlan(gone, (await lookOnce(gone, ordinaryConfig, { memory })).plan);
    const after = await lookOnce(gone, ordinaryConfig);
    expect([after.decisions[0]?.affinitySeconds, after.plan.transactions]).toEqual([10_800, []]);
  });
});

const config: Config = {
  ...ordinaryConfig,
  proxyMode: 'none',
  iptables: 'legacy',
  endpoints: ['10.77.0.11:6443', '10.77.0.12:6443'].map(toEndpoint),
};

/** A host for which such an agent has written its rules. */
async function writeRules() {
  const kernel = new FakeKernel();
  const ports = { kernel, askProxyMode: () => Promise.resolve(null), health: nobodyProbes, api: noApi };
  await applyPlan(kernel, (await observeAndAssess(ports, config, emptyState)).plan);
  return { kernel, ports };
}

test('apiservers that only our rules in the other backend name are not lost when the backend changes', async () => {
  const { kernel, ports } = await writeRules();

  const later = { ...config, iptables: 'nft' as const, endpoints: [] };
  const { decisions, plan } = await observeAndAssess(ports, later, emptyState);
  expect(decisions).toMatchObject([{ mode: 'direct', backends: config.endpoints }]);

  await applyPlan(kernel, plan);
  expect(kernel.show('ipv4', 'nft')).toContain('--to-destination 10.77.0.12:6443');
  expect(kernel.show('ipv4', 'legacy')).not.toContain('VIPNAT');
});

test('apiservers that only our rules name are remembered while one of them is dead, and the rules no longer name it', async () => {
  const { kernel, ports } = await writeRules();
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
  expect(decisions).toMatchObject([{ mode: 'direct', backends: config.endpoints }]);
});

const on = (device: string, address: string) =>
  ({ family: address.includes(':') ? 'ipv6' : 'ipv4', address, device }) as const;

const sources: OwnSources = {
  family: 'ipv4',
  addresses: [
    on('lo', '127.0.0.1'),
    on('docker0', '172.17.0.1'),
    on('eth1', '192.168.7.4'),
    on('eth0', '10.77.0.99'),
    on('eth0', '10.77.0.50'),
    on('eth0', 'fd77::99'),
  ],
  vips: [toEndpoint('10.77.0.50:443')],
  listed: [toEndpoint('10.0.3.11:6443')],
  others: [],
};

test.each<[string, Partial<OwnSources>, string | null]>([
  ['at the address most like the VIP, at the listed ones’ port', {}, '10.77.0.99:6443'],
  [
    'at the address most like a listed one',
    { vips: [toEndpoint('203.0.113.9:443')], listed: [toEndpoint('192.168.7.11:7443')] },
    '192.168.7.4:7443',
  ],
  ['where another source names this host’s', { others: [toEndpoint('172.17.0.1:6443')] }, '172.17.0.1:6443'],
  ['nowhere when one of this host’s is listed', { listed: [toEndpoint('192.168.7.4:6443')] }, null],
  ['nowhere when nobody is listed', { listed: [] }, null],
  ['nowhere without an address', { addresses: [on('lo', '127.0.0.1'), on('eth0', '10.77.0.50')] }, null],
  ['never at the address of a Service', { addresses: [on('kube-ipvs0', '10.77.0.51')] }, null],
])('this host’s own apiserver is looked for %s', (_where, given, found) => {
  expect(findOwnEndpoint({ ...sources, ...given })).toEqual(found === null ? null : toEndpoint(found));
});
