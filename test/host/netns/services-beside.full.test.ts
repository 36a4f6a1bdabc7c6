import { describe, expect, test } from '@jest/globals';
import { startAgent, vipnat } from '../../support/host/vipnat.ts';
import { vips } from '../../support/network/layout.ts';
import { podPort, pods } from './service-world.ts';
import { balanced, useWebService, vip } from './web-service.ts';
import { expectNoneLost, startLoad, startProxies } from './traffic.ts';

const [, proxied = { name: '', ipv4: '' }] = pods;

/** What kube-proxy has for the Service's address, as far as packets notice it: all to one pod. */
const iptablesRules = (tool: string) => `
for hook in PREROUTING OUTPUT; do ${tool} -t nat -N KUBE-SERVICES 2>/dev/null || true; ${tool} -t nat -A $hook -j KUBE-SERVICES; done
${tool} -t nat -N KUBE-EXT-WEB
${tool} -t nat -A KUBE-EXT-WEB -j MARK --or-mark 0x4000
${tool} -t nat -A KUBE-EXT-WEB -p tcp -j DNAT --to-destination ${proxied.ipv4}:${podPort}
${tool} -t nat -A KUBE-SERVICES -d ${vip}/32 -p tcp --dport 80 -j KUBE-EXT-WEB
${tool} -t nat -A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE --random-fully`;

const nftRules = `nft -f - <<'END'
table ip kube-proxy {
  map service-ips {
    type ipv4_addr . inet_proto . inet_service : verdict
  }
  chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }
  chain nat-output { type nat hook output priority -100; jump services; }
  chain nat-postrouting { type nat hook postrouting priority srcnat; meta mark & 0x4000 == 0x4000 masquerade; }
  chain external-web { meta mark set meta mark | 0x4000; meta l4proto tcp dnat to ${proxied.ipv4}:${podPort}; }
  chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }
}
add element ip kube-proxy service-ips { ${vip} . tcp . 80 : goto external-web }
END`;

const proxyModes = [
  ['iptables (nft)', iptablesRules('iptables-nft'), 'iptables-nft-save -t nat'],
  ['iptables (legacy)', iptablesRules('iptables-legacy'), 'iptables-legacy-save -t nat'],
  ['nftables', nftRules, 'nft list table ip kube-proxy'],
] as const;

describe('the balancer', () => {
  const web = useWebService();

  /** The pods that answer now, and what fails. The other seat is under load. */
  const ask = async () => {
    const { apiservers, errors } = await web.cluster.seat('pod on a worker').greet(vip, 80, 60);
    return [...Object.keys(apiservers).sort(), ...Object.keys(errors)];
  };
  const everyPod = pods.map(({ name }) => name).sort();

  test.each(proxyModes)("beside kube-proxy's rules fails nobody (%s)", async (_mode, rules, dump) => {
    await web.shell('m1', rules);
    const before = dropCounters(await web.shell('m1', dump));
    const load = startLoad(web.cluster, { host: vip, port: 80 }, 200);
    expect(await ask()).toEqual([proxied.name]);
    await web.startBalancer(balanced);
    expect(await ask()).toEqual(everyPod);
    await web.stopBalancers('SIGKILL');
    expect(await ask()).toEqual(everyPod);
    await web.letTablesCount('m1', 0);
    expect(await ask()).toEqual([proxied.name]);
    await web.startBalancer(balanced);
    expect(await ask()).toEqual(everyPod);
    await web.stopBalancers();
    expect(await vipnat(web.cluster, 'm1', ['cleanup'])).toMatchObject({ exitCode: 0 });
    expect(await ask()).toEqual([proxied.name]);
    expect(dropCounters(await web.shell('m1', dump))).toBe(before);
    await expectNoneLost(load, 100);
  });

  test('beside vipnat run: cleanup takes what belongs to the one that has ended, and leaves the other', async () => {
    await startProxies(web.cluster, ['m1'], 'nft', ['ipv4']);
    const flags = ['--vip', vips.ipv4];
    const agent = await startAgent(web.cluster, 'm1', flags);
    await web.startBalancer(balanced);
    const answers = async () =>
      (await web.cluster.seat('outside client').request(vips.ipv4, 6443, 20)).errors;
    expect([await ask(), await answers()]).toEqual([everyPod, {}]);
    await web.stopBalancers();
    const one = await vipnat(web.cluster, 'm1', ['cleanup']);
    expect(one).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('[AGENT_ALREADY_RUNNING]') });
    expect(one.stderr).toContain('removed the table (ip vipnat-lb, nft)');
    expect(await web.shell('m1', 'nft list tables')).not.toContain('vipnat-lb');
    expect(await vipnat(web.cluster, 'm1', ['check', ...flags])).toMatchObject({ exitCode: 0 });
    await web.startBalancer(balanced);
    await agent.stop();
    const other = await vipnat(web.cluster, 'm1', ['cleanup']);
    expect(other.exitCode).toBe(1);
    expect(other.stderr).toContain('[BALANCER_ALREADY_RUNNING]');
    expect(other.stderr).toMatch(/removed \(nat, iptables-nft\)/);
    expect(await web.shell('m1', 'iptables-nft-save')).not.toContain('VIPNAT');
    expect(await ask()).toEqual(everyPod);
  });
});

const dropCounters = (text: string): string => text.replaceAll(/\[\d+:\d+\]|^#.*$/gm, '');
