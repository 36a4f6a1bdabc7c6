import { vips } from '../../support/network/layout.ts';
import { describe, afterEach, test, expect } from '@jest/globals';
import { shownDialects } from '../../support/jest/pairs.ts';
import { toolName } from '../../../lib/kernel/port.ts';
import type { KubeProxyStandIn } from '../../support/kube-proxy/on-host.ts';
import { type Agent, vipnat, startAgent, waitForSync } from '../../support/host/vipnat.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { startProxies, expectBalanced, client, vipArguments } from './traffic.ts';
import { serviceChain } from '../../../lib/kube-proxy/read.ts';
import { dumpRules } from '../../support/host/foreign-rules.ts';
import { requestLimitMs } from '../../support/network/seat-tasks.ts';

const kubeProxyHook = 'PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES';

describe.each(shownDialects)('on a VIP holder with iptables-%s', (dialect) => {
  const tool = toolName('ipv4', dialect);
  let kubeProxy: KubeProxyStandIn;
  let agents: Agent[] = [];

  const cluster = useCluster('all tests', async () => {
    const [proxy] = await startProxies(cluster, ['m1'], dialect, ['ipv4']);
    kubeProxy = proxy as KubeProxyStandIn;
  });

  afterEach(async () => {
    await Promise.all(agents.map((agent) => agent.stop('SIGKILL')));
    agents = [];
    await kubeProxy.sync();
    await vipnat(cluster, 'm1', ['cleanup']);
  });

  const shell = (script: string) => cluster.shell('m1', script);
  const check = () => vipnat(cluster, 'm1', ['check', ...vipArguments]);
  const start = async () => {
    const agent = await startAgent(cluster, 'm1', vipArguments);
    agents.push(agent);
    return agent;
  };

  test('check finds nothing after run --once, and names every missing hook after iptables -t nat -F', async () => {
    expect(await vipnat(cluster, 'm1', ['run', '--once', ...vipArguments])).toMatchObject({ exitCode: 0 });
    expect(await check()).toMatchObject({ exitCode: 0, stderr: '' });

    await shell(`${tool} -t nat -F`);
    const { exitCode, stdout } = await check();
    expect(exitCode).toBe(2);
    for (const [chain, target] of [
      ['PREROUTING', 'VIPNAT'],
      ['OUTPUT', 'VIPNAT'],
      ['POSTROUTING', 'VIPNAT-POSTROUTING'],
    ] as const)
      expect(stdout).toContain(`drift: ${chain} has no jump to ${target} (nat, ${tool})`);
    expect(stdout).toContain("clients on other hosts reach only the VIP holder's apiserver");
    expect(stdout).not.toContain('FORWARD has no jump');
    expect(stdout).toMatch(/vipnat run --once --vip=\S+ .*repairs it now/);
  });

  test('a firewall reload that knows nothing of us is repaired, and no request fails meanwhile', async () => {
    const files = await shell(`for table in nat filter; do ${tool}-save -t $table; done`);
    const agent = await start();
    const measuring = cluster.seat('outside client').connectAtRate({
      ...{ host: vips.ipv4, port: 6443, isNamed: true, perSecond: 50, durationMs: 3000 },
      limitMs: requestLimitMs,
    });
    for (let reload = 0; reload < 3; reload += 1) {
      const seen = agent.log.length;
      await shell(`${tool}-restore <<'END'\n${files}\nEND`);
      await waitForSync(cluster, 'm1', vipArguments);
      await agent.waitForLine(/vipnat repaired its rules: /, seen);
    }
    const { failures, sent } = await measuring;
    expect(failures).toEqual([]);
    expect(sent).toBe(150);
    expect(await shell(`${tool} -t nat -S KUBE-SERVICES`)).toContain(serviceChain);
    await expectBalanced(cluster, client);
  });

  test('when kube-proxy puts its hook before ours again, ours moves before it, once, and no fight begins', async () => {
    const agent = await start();
    const move = `*nat\n-D ${kubeProxyHook}\n-I ${kubeProxyHook}\nCOMMIT`;
    await shell(`${tool}-restore --noflush <<'END'\n${move}\nEND`);
    await agent.waitForLine(
      /vipnat repaired its rules: in PREROUTING a foreign rule comes before the jump to VIPNAT/,
    );
    await kubeProxy.sync();
    await waitForSync(cluster, 'm1', vipArguments);
    const targets = (await shell(`${tool} -t nat -S PREROUTING`)).matchAll(/-j (\S+)/g);
    expect([...targets].slice(0, 2).map(([, target]) => target)).toEqual(['VIPNAT', 'KUBE-SERVICES']);
    expect(agent.listLines(/keeps undoing/)).toEqual([]);
    // kube-proxy has written twice.
    expect(agent.listLines(/repaired/).length).toBeLessThanOrEqual(2);
  });

  test('after a flush under a running agent the last known apiservers are balanced over until kube-proxy is back', async () => {
    const agent = await start();
    await shell(`${tool} -t nat -F`);
    await agent.waitForLine(/service-chain -> direct to 10\.77\.0\.11:6443, /);
    await expectBalanced(cluster, client);
    await kubeProxy.sync();
    await agent.waitForLine(/direct -> service-chain: /);
    await expectBalanced(cluster, client);
  });

  test('run --dry-run writes nothing, with our rules there and without', async () => {
    const empty = await dumpRules(cluster, 'm1');
    const first = await vipnat(cluster, 'm1', ['run', '--dry-run', ...vipArguments]);
    expect(first.exitCode).toBe(0);
    expect(first.stdout).toContain(`${tool} -t nat -N VIPNAT 2>/dev/null`);
    expect(await dumpRules(cluster, 'm1')).toBe(empty);

    await vipnat(cluster, 'm1', ['run', '--once', ...vipArguments]);
    const filled = await dumpRules(cluster, 'm1');
    await vipnat(cluster, 'm1', ['run', '--dry-run', '--vip', '10.77.0.99']);
    expect(await dumpRules(cluster, 'm1')).toBe(filled);
  });
});
