import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { vipChainName } from '../../../../lib/dialect.ts';
import type { Config } from '../../../../config/options.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';
import { planOffline, describeMode } from '../../../../agent/decide/mode.ts';
import { describe, test, expect } from '@jest/globals';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import type { Decision } from '../../../../agent/decide/decision.ts';

const vip = toEndpoint('172.16.64.58:6443');
const chain = vipChainName(vip);
const config: Config = { ...ordinaryConfig, vips: [vip], proxyMode: 'iptables' };

/** The rules of a chain in a script, without their comments. */
function rulesIn(state: ReturnType<typeof planOffline>, name: string): string[] {
  return state.plan.transactions
    .flatMap(({ input }) => input.split('\n'))
    .filter((line) => /^-[AI] /.test(line) && line.split(' ')[1] === name)
    .map((line) =>
      line
        .split(' ')
        .slice(2)
        .join(' ')
        .replace(/-m comment --comment "[^"]*" /, ''),
    );
}

describe('planning for a host that is not looked at', () => {
  test('kube-proxy in iptables mode: its chain, and hooks before everything', () => {
    const state = planOffline(config);
    expect(state.decisions).toMatchObject([{ mode: 'service-chain', isBypass: false }]);
    expect(rulesIn(state, chain)).toEqual(['-j KUBE-SVC-NPX46M4PTMTKRN6Y']);
    expect(rulesIn(state, 'VIPNAT')).toEqual([
      `-d 172.16.64.58/32 -p tcp -m tcp --dport 6443 --tcp-flags FIN,SYN,RST,ACK SYN -j ${chain}`,
    ]);
    expect(rulesIn(state, 'PREROUTING')).toEqual(['-j VIPNAT']);
    expect(rulesIn(state, 'OUTPUT')).toEqual(['-j VIPNAT']);
    expect(rulesIn(state, 'POSTROUTING')).toEqual(['-j VIPNAT-POSTROUTING']);
    expect(rulesIn(state, 'FORWARD')).toEqual(['-j VIPNAT-FORWARD']);
  });

  test('kube-proxy in ipvs mode: its virtual server at the ClusterIP given', () => {
    const state = planOffline({ ...config, proxyMode: 'ipvs', clusterIps: { ipv4: '10.244.255.1' } });
    expect(state.decisions).toMatchObject([{ mode: 'cluster-ip', clusterIp: '10.244.255.1' }]);
    expect(rulesIn(state, chain)).toEqual(['-p tcp -m tcp -j DNAT --to-destination 10.244.255.1:443']);
  });

  test.each(['nftables', 'none'] as const)(
    'kube-proxy as %s says: straight to the apiservers given',
    (proxyMode) => {
      const endpoints = ['172.16.64.11:6443', '172.16.64.12:6443', '[fd00::11]:6443'].map(toEndpoint);
      const state = planOffline({ ...config, proxyMode, endpoints });
      expect(state.decisions).toMatchObject([{ mode: 'direct', backends: endpoints.slice(0, 2) }]);
      const [transaction] = state.plan.transactions;
      const isOwnTable = proxyMode === 'nftables';
      expect(transaction?.dialect).toBe(isOwnTable ? 'nftables' : 'nft');
      expect(rulesIn(state, chain)).toHaveLength(isOwnTable ? 0 : 2);
      expect(transaction?.input).toContain('172.16.64.11');
    },
  );

  test('a forced way comes before what kube-proxy does', () => {
    const endpoints = [toEndpoint('172.16.64.11:6443')];
    expect(planOffline({ ...config, mode: 'direct', endpoints }).decisions[0]?.mode).toBe('direct');
  });

  test('each family of the VIPs gets its transaction, in the backend asked for', () => {
    const vips = [vip, toEndpoint('[fd00::50]:6443')];
    const targets = (wanted: Config) =>
      planOffline(wanted).plan.transactions.map(({ family, dialect }) => `${family} ${dialect}`);
    expect(targets({ ...config, vips })).toEqual(['ipv4 nft', 'ipv6 nft']);
    expect(targets({ ...config, vips, iptables: 'legacy' })).toEqual(['ipv4 legacy', 'ipv6 legacy']);
  });

  test('the script is one that the tools take', () => {
    const kernel = new FakeKernel(new FakeClock());
    kernel.run('ipv4', 'nft', '*nat\n:KUBE-SVC-NPX46M4PTMTKRN6Y - [0:0]\nCOMMIT\n');
    const [transaction] = planOffline(config).plan.transactions;
    kernel.run('ipv4', 'nft', transaction?.input ?? '');
    expect(kernel.show('ipv4', 'nft')).toContain(`:${chain} - [0:0]`);
  });

  test('the reason says that nothing was read', () => {
    expect(planOffline(config).decisions[0]?.reason).toBe(
      'vipnat read nothing (--offline), and assumes --proxy-mode iptables',
    );
  });
});

const direct: Decision = {
  vip: toEndpoint('[fd00::50]:6443'),
  mode: 'direct',
  reason: 'this host runs no kube-proxy',
  isBypass: false,
  clusterIp: null,
  affinitySeconds: null,
  backends: [toEndpoint('[fd00::11]:6443')],
};

test('a way is named so that a change of it can be told: direct with its apiservers', () => {
  expect(describeMode(direct)).toBe('direct to [fd00::11]:6443');
  expect(describeMode({ ...direct, mode: 'service-chain' })).toBe('service-chain');
});
