import type { Config } from '../../../../config/options.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { describe, test, expect } from '@jest/globals';
import { restoreCaptures, lookOnce } from '../../../support/agent/captured-host.ts';
import { formatCommands } from '../../../../cli/screens/plan.ts';
import { planOffline } from '../../../../agent/decide/mode.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';

const offline: Config = { ...ordinaryConfig, proxyMode: 'iptables' };
const three = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'].map(toEndpoint);

describe('the plan as commands', () => {
  test('begins with the node, kube-proxy, the way of each VIP and the reason', async () => {
    const state = await lookOnce(restoreCaptures(['iptables-nft-save.three-endpoints.txt']), ordinaryConfig);
    expect(formatCommands(state, 'master-1').split('\n').slice(0, 2)).toEqual([
      '# master-1 · kube-proxy: iptables (nft), nat KUBE-SERVICES (iptables-nft) · 10.0.0.50:6443: service-chain',
      '# Why: kube-proxy sends 10.96.0.1 to the same 3 apiservers (nat KUBE-SERVICES (iptables-nft)).',
    ]);
  });

  test('shows nat first, gives each chain its reason, and ends with a count of changes: none was written', () => {
    const { plan } = planOffline(offline);
    const text = formatCommands(planOffline(offline), 'master-1');
    const reasons = [
      "# 10.0.0.50:6443 goes through kube-proxy's service chain of default/kubernetes:",
      '# Match new connections by VIP address and port:',
      "# Replies must come back through this node, so its address replaces the client's:",
      "# Connections from other hosts and from pods, before kube-proxy's own rules:",
      '# Connections from this host itself:',
      '# After routing, before packets leave this node:',
      '# Accept balanced connections in both directions:',
      '# Before any rule that would drop them, on hosts with FORWARD policy DROP:',
    ];
    expect(text.split('\n').filter((line, at) => at > 1 && line.startsWith('# '))).toEqual([
      ...reasons,
      `# ${plan.tables[1]?.changes.length} changes to nat, ${plan.tables[0]?.changes.length} to filter. Nothing was written.`,
    ]);
  });

  test.each<[string, Partial<Config>, string]>([
    [
      'cluster-ip',
      { proxyMode: 'ipvs', clusterIps: { ipv4: '10.96.0.1' } },
      "kube-proxy's virtual server 10.96.0.1:",
    ],
    ['direct', { proxyMode: 'none', endpoints: three }, 'directly to 3 apiservers, chosen at random:'],
    ['passthrough', { proxyMode: 'none' }, 'stays with the VIP holder:'],
  ])('names where the VIP goes: %s', (mode, config, words) => {
    const state = planOffline({ ...offline, ...config, mode: mode === 'passthrough' ? 'direct' : 'auto' });
    const text = formatCommands(
      mode === 'passthrough'
        ? { ...state, decisions: state.decisions.map((decision) => ({ ...decision, mode: 'passthrough' })) }
        : state,
      'master-1',
    );
    expect(text).toContain(words);
  });

  test('chains that are left over are deleted after what referred to them', async () => {
    const kernel = new FakeKernel(new FakeClock());
    kernel.run('ipv6', 'nft', '*nat\n:VIPNAT-OLD - [0:0]\n-A OUTPUT -j VIPNAT-OLD\nCOMMIT\n');
    const text = formatCommands(await lookOnce(kernel, { ...ordinaryConfig, endpoints: three }), 'master-1');
    expect(text).toContain('# Left over, and no longer used:\nip6tables-nft -t nat -X VIPNAT-OLD');
    expect(text.indexOf('-D OUTPUT -j VIPNAT-OLD')).toBeLessThan(text.indexOf('-X VIPNAT-OLD'));
  });

  test('what --sysctls check leaves is a comment', async () => {
    const kernel = new FakeKernel(new FakeClock());
    kernel.forwarding = { ipv4: false, ipv6: false };
    const config: Config = { ...ordinaryConfig, endpoints: three, sysctls: 'check' };
    const text = formatCommands(await lookOnce(kernel, config), 'master-1');
    expect(text).toContain('leaves it off (--sysctls check):\n# sysctl -w net.ipv4.ip_forward=1\n');
    expect(text).not.toMatch(/^sysctl/m);
    const own = formatCommands(await lookOnce(kernel, { ...config, sysctls: 'set' }), 'master-1');
    expect(own).toContain('\n# IP forwarding is off:\nsysctl -w net.ipv4.ip_forward=1\n');
  });

  test('what is quoted of others is no second line, and so no command', () => {
    const state = planOffline(offline);
    const decisions = state.decisions.map((one) => ({ ...one, reason: 'dead: no\nreboot \u001b[2J' }));
    const text = formatCommands({ ...state, decisions, refused: ['x\nreboot'] }, 'master-1');
    expect(text).toContain(String.raw`# Why: dead: no reboot \u001b[2J.`);
    expect(text).not.toMatch(/^reboot/m);
  });

  test('an IPv6 destination is quoted for the shell', async () => {
    const config: Config = {
      ...ordinaryConfig,
      vips: [toEndpoint('[fd00::50]:6443')],
      endpoints: [toEndpoint('[fd00:77::11]:6443')],
    };
    const text = formatCommands(await lookOnce(new FakeKernel(new FakeClock()), config), 'master-1');
    expect(text).toContain("--to-destination '[fd00:77::11]:6443'\n");
  });
});
