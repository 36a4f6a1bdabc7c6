import { expect, test } from '@jest/globals';
import { formatJson } from '../../../../../cli/format/json/json.ts';
import { applyPlan } from '../../../../../agent/reconcile/look.ts';
import { lookOnce, restoreCaptures } from '../../../../support/agent/captured-host.ts';
import { ordinaryConfig } from '../../../../support/agent/running-agent.ts';

const capture = 'iptables-nft-save.three-endpoints.txt';

/** Scripts read this: what is renamed here breaks them. */
test('the plan as JSON has every decision and every transaction', async () => {
  const kernel = restoreCaptures([capture]);
  kernel.addAddress({ family: 'ipv4', address: '10.0.0.50', device: 'eth0' });
  const state = await lookOnce(kernel, ordinaryConfig);
  expect(JSON.parse(formatJson(state, 'master-1'))).toEqual({
    version: 1,
    node: 'master-1',
    unread: [],
    kubeProxy: { mode: 'iptables', backend: 'nft', reason: 'nat KUBE-SERVICES (iptables-nft)' },
    vips: [
      {
        vip: '10.0.0.50:6443',
        family: 'ipv4',
        held: true,
        way: 'service-chain',
        reason: 'kube-proxy sends 10.96.0.1 to the same 3 apiservers (nat KUBE-SERVICES (iptables-nft))',
        clusterIp: '10.96.0.1',
        backends: ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'],
        affinitySeconds: null,
        localSource: '10.0.0.50',
      },
    ],
    inSync: false,
    sysctls: [],
    localRoutes: [],
    refused: [],
    transactions: [
      { tool: 'iptables-nft-restore', family: 'ipv4', input: state.plan.transactions[0]?.input },
    ],
    balancer: null,
  });
});

test('in sync there are no transactions, and a VIP elsewhere is not held', async () => {
  const kernel = restoreCaptures([capture]);
  await applyPlan(kernel, (await lookOnce(kernel, ordinaryConfig)).plan);
  const text = formatJson(await lookOnce(kernel, ordinaryConfig), 'master-1');
  expect(JSON.parse(text)).toMatchObject({ inSync: true, transactions: [], vips: [{ held: false }] });
  expect(text.endsWith('}\n')).toBe(true);
});

test('a host that does not forward is not in sync, whatever its rules', async () => {
  const kernel = restoreCaptures([capture]);
  await applyPlan(kernel, (await lookOnce(kernel, ordinaryConfig)).plan);
  kernel.forwarding = { ipv4: false, ipv6: false };
  expect(JSON.parse(formatJson(await lookOnce(kernel, ordinaryConfig), 'master-1'))).toMatchObject({
    inSync: false,
    sysctls: [{ name: 'net.ipv4.ip_forward', value: '0', wanted: '1' }],
    transactions: [],
  });
});
