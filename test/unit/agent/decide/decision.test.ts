import { ordinaryConfig } from '../../../support/agent/running-agent.ts';
import { vipChainName } from '../../../../lib/dialect.ts';
import type { FakeKernel } from '../../../support/fakes/kernel.ts';
import type { Assessment } from '../../../../agent/decide/decision.ts';
import { applyPlan } from '../../../../agent/sync.ts';
import { describe, test, expect } from '@jest/globals';
import { restoreCaptures, lookOnce, decisionOf } from '../../../support/agent/captured-host.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';

const [vip] = ordinaryConfig.vips;
const vipChain = vip === undefined ? '' : vipChainName(vip);
const three = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'];
const two = three.slice(0, 2);

/** The rules of the VIP's chain after the plan was written, without their comments. */
async function writtenRules(kernel: FakeKernel, { plan }: Assessment, dialect: 'nft' | 'legacy' = 'nft') {
  await applyPlan(kernel, plan);
  return kernel
    .show('ipv4', dialect)
    .split('\n')
    .filter((line) => line.startsWith(`-A ${vipChain} `))
    .map((line) => line.slice(`-A ${vipChain} `.length).replace(/-m comment --comment "vipnat:[^"]*" /, ''));
}

describe('kube-proxy in iptables mode', () => {
  test.each([
    ['iptables-nft-save.three-endpoints.txt', 'nft', three],
    ['iptables-nft-save.two-endpoints.txt', 'nft', two],
    ['iptables-nft-save.client-ip-affinity.txt', 'nft', three],
    ['iptables-legacy-save.three-endpoints.txt', 'legacy', three],
    ['iptables-legacy-save.two-endpoints.txt', 'legacy', two],
    ['iptables-legacy-save.client-ip-affinity.txt', 'legacy', three],
  ] as const)('%s: the VIP goes through its chain, in its backend', async (name, dialect, apiservers) => {
    const kernel = restoreCaptures([name]);
    const assessment = await lookOnce(kernel, ordinaryConfig);
    expect(assessment.observation.dialect.value).toBe(dialect);
    expect(decisionOf(assessment)).toMatchObject({
      ...{ mode: 'service-chain', clusterIp: '10.96.0.1', backends: apiservers },
    });
    expect(await writtenRules(kernel, assessment, dialect)).toEqual(['-j KUBE-SVC-NPX46M4PTMTKRN6Y']);
  });

  test('chains that nothing leads to are left over: no jump of ours keeps them from going (I11)', async () => {
    const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt']);
    const before = await lookOnce(kernel, ordinaryConfig);
    await applyPlan(kernel, before.plan);
    // What \`kube-proxy --cleanup\` does before it deletes its chains.
    const hook = '-D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES';
    kernel.run('ipv4', 'nft', `*nat\n${hook}\nCOMMIT\n`);
    const assessment = await lookOnce(kernel, ordinaryConfig);
    expect(decisionOf(assessment)).toMatchObject({ mode: 'direct', backends: three });
    expect(decisionOf(assessment).reason).toContain('nat PREROUTING has no jump to KUBE-SERVICES');
    expect(await writtenRules(kernel, assessment)).not.toContain('-j KUBE-SVC-NPX46M4PTMTKRN6Y');
  });

  test.each(['nft', 'legacy'])('in iptables-%s-save.no-endpoints.txt the VIP is left', async (backend) => {
    const kernel = restoreCaptures([`iptables-${backend}-save.no-endpoints.txt`]);
    const assessment = await lookOnce(kernel, ordinaryConfig);
    expect(decisionOf(assessment)).toMatchObject({ mode: 'passthrough', backends: [] });
    expect(await writtenRules(kernel, assessment, backend === 'nft' ? 'nft' : 'legacy')).toEqual([]);
  });

  test('without endpoints, those given with --endpoints are balanced over', async () => {
    const kernel = restoreCaptures(['iptables-nft-save.no-endpoints.txt']);
    const config = { ...ordinaryConfig, endpoints: two.map(toEndpoint) };
    const assessment = await lookOnce(kernel, config);
    expect(decisionOf(assessment)).toMatchObject({ mode: 'direct', backends: two });
    expect(decisionOf(assessment).reason).toContain('kube-proxy wants to delete its chain');
    expect(await writtenRules(kernel, assessment)).toEqual([
      '-p tcp -m statistic --mode random --probability 0.50000000000 -m tcp -j DNAT --to-destination 10.77.0.11:6443',
      '-p tcp -m tcp -j DNAT --to-destination 10.77.0.12:6443',
    ]);
  });

  test('each VIP goes by the rules of its own family', async () => {
    const kernel = restoreCaptures([
      'iptables-nft-save.three-endpoints.txt',
      'ip6tables-nft-save.three-endpoints.txt',
    ]);
    const config = { ...ordinaryConfig, vips: [...ordinaryConfig.vips, toEndpoint('[fd00::50]:6443')] };
    const { decisions, plan } = await lookOnce(kernel, config);
    expect(decisions.map(({ mode }) => mode)).toEqual(['service-chain', 'passthrough']);
    expect(plan.transactions.map(({ family }) => family)).toEqual(['ipv4', 'ipv6']);
  });
});

describe('the bypass', () => {
  const bothBackends = ['iptables-nft-save.three-endpoints.txt', 'iptables-legacy-save.two-endpoints.txt'];
  const config = { ...ordinaryConfig, iptables: 'legacy' } as const;

  test("kube-proxy's rules in the backend we write to list other apiservers than its live ones: straight to these", async () => {
    const assessment = await lookOnce(restoreCaptures(bothBackends), config);
    expect(decisionOf(assessment)).toMatchObject({ mode: 'direct', isBypass: true, backends: three });
    expect(decisionOf(assessment).reason).toBe(
      "kube-proxy's list is out of date: it names 2 apiservers (nat KUBE-SERVICES (iptables-legacy)), and 3 apiservers are usable (nat KUBE-SVC-NPX46M4PTMTKRN6Y (iptables-nft))",
    );
  });
});

describe('kube-proxy in ipvs mode', () => {
  const files = ['iptables-legacy-save.ipvs-three-endpoints.txt', 'proc-net-ip_vs.three-endpoints.txt'];

  test('the VIP goes to its virtual server', async () => {
    const kernel = restoreCaptures(files);
    const assessment = await lookOnce(kernel, ordinaryConfig);
    expect(assessment.observation.proxyMode.value).toBe('ipvs');
    expect(decisionOf(assessment)).toMatchObject({
      ...{ mode: 'cluster-ip', clusterIp: '10.96.0.1', backends: three },
    });
    expect(await writtenRules(kernel, assessment, 'legacy')).toEqual([
      '-p tcp -m tcp -j DNAT --to-destination 10.96.0.1:443',
    ]);
  });

  test('a ClusterIP without a virtual server: straight to the apiservers given, and the reason says so', async () => {
    const config = { ...ordinaryConfig, clusterIps: { ipv4: '10.96.0.99' }, endpoints: two.map(toEndpoint) };
    const assessment = await lookOnce(restoreCaptures(files), config);
    expect(decisionOf(assessment)).toMatchObject({
      mode: 'direct',
      backends: two,
      reason: '/proc/net/ip_vs has no TCP virtual server 10.96.0.99:443; apiservers from --endpoints',
    });
  });
});

describe('--masquerade kube-mark', () => {
  const config = { ...ordinaryConfig, masquerade: 'kube-mark' } as const;
  const flush = '*nat\n-F PREROUTING\nCOMMIT\n';
  test.each([
    ["leaves it to kube-proxy's mark while that is set there", 'three', '', true],
    ['masquerades itself when nothing leads to kube-proxy: its chain is a leftover', 'three', flush, false],
    ['masquerades itself where nobody sets the mark, or kube-proxy wants its chains gone', 'no', '', false],
  ])('%s', async (_, capture, happening, isMarked) => {
    const kernel = restoreCaptures([`iptables-nft-save.${capture}-endpoints.txt`]);
    if (happening !== '') kernel.run('ipv4', 'nft', happening);
    await applyPlan(kernel, (await lookOnce(kernel, config)).plan);
    const rules = kernel.show('ipv4', 'nft');
    expect(new RegExp(`-A ${vipChain} .*-j KUBE-MARK-MASQ`).test(rules)).toBe(isMarked);
    expect(rules.includes(isMarked ? 'VIPNAT-POSTROUTING' : '-A VIPNAT-POSTROUTING')).toBe(!isMarked);
  });
});
