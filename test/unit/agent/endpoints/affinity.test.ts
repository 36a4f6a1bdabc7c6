import { describe, expect, test } from '@jest/globals';
import { type ApiView } from '../../../../agent/api/cluster-api.ts';
import { emptyState } from '../../../../agent/observe/reconcile-state.ts';
import { lookOnce, restoreCaptures } from '../../../support/agent/captured-host.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';

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
    expect(await affinityAt(sticky)).toBe(10_800);
    expect(await affinityAt(plain)).toBeNull();
    const unheardOf = { ...api, clusterIps: {}, affinitySeconds: null };
    expect(await affinityAt(sticky, { ...emptyState, api: unheardOf })).toBe(10_800);
  });

  test('is remembered when its rules are gone', async () => {
    const kernel = restoreCaptures([sticky]);
    const { memory } = await lookOnce(kernel, ordinaryConfig);
    expect(await affinityAt(null, memory)).toBe(10_800);
    expect(await affinityAt(plain, memory)).toBeNull();
  });

  test('is read from rules of ours by a process that was not there: it goes on as the one before', async () => {
    const kernel = restoreCaptures([sticky]);
    const before = await lookOnce(kernel, ordinaryConfig);
    const gone = restoreCaptures([]);
    const { plan } = await lookOnce(gone, ordinaryConfig, { memory: before.memory });
    for (const transaction of plan.transactions) await gone.apply(transaction);
    const after = await lookOnce(gone, ordinaryConfig);
    expect(after.decisions[0]?.affinitySeconds).toBe(10_800);
    expect(after.plan.transactions).toEqual([]);
  });
});
