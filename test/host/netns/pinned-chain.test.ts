import { listApiservers } from '../../support/network/layout.ts';
import { describe, expect, test } from '@jest/globals';
import { shownDialects } from '../../support/jest/pairs.ts';
import { toolName } from '../../../lib/kernel/port.ts';
import type { KubeProxyStandIn } from '../../support/kube-proxy/on-host.ts';
import { type Agent, startAgent, waitForSync, vipnat } from '../../support/host/vipnat.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { startProxies, expectBalanced, expectAnswers, client, vipArguments } from './traffic.ts';
import { serviceChain } from '../../../lib/kube-proxy/read.ts';

describe.each(shownDialects)('our jump into kube-proxy’s chain, with iptables-%s', (dialect) => {
  const tool = toolName('ipv4', dialect);
  let kubeProxy: KubeProxyStandIn;
  let agent: Agent;

  const cluster = useCluster('each test', async () => {
    const [proxy] = await startProxies(cluster, ['m1'], dialect, ['ipv4']);
    kubeProxy = proxy as KubeProxyStandIn;
    agent = await startAgent(cluster, 'm1', vipArguments);
    expect(agent.log).toContain('service-chain: ');
  });

  const saveNat = () => cluster.shell('m1', `${tool}-save -t nat`);

  /** Syncs as kube-proxy does, which tries again after 30 s: one attempt may fail, and the next one comes when the agent has seen that. */
  const syncInTwo = async (attempt: () => Promise<void>): Promise<void> => {
    const seen = agent.log.length;
    try {
      await attempt();
      return;
    } catch (error) {
      expect(String(error)).toMatch(/exit status [14]/);
    }
    await agent.waitForLine(/service-chain -> direct to /, seen);
    await attempt();
  };

  test('is released when kube-proxy wants the chain gone: its restore fails at most once, and the VIP stays balanced (I11)', async () => {
    await syncInTwo(() => kubeProxy.sync([]));
    expect(await saveNat()).not.toContain(serviceChain);

    await waitForSync(cluster, 'm1', vipArguments);
    const [line] = agent.listLines(/service-chain -> direct/);
    expect(line).toMatch(/direct to .*\.11:6443, 10\.77\.0\.12:6443, 10\.77\.0\.13:6443: kube-proxy wants/);
    await expectBalanced(cluster, client);
  });

  test('does not keep kube-proxy from cleaning up for its nftables mode, whose endpoints are used then', async () => {
    await syncInTwo(async () => {
      await kubeProxy.cleanUp();
      // It ignores that its restore failed, and leaves the chains behind.
      if (/:KUBE-(?!PROXY-CANARY)/.test(await saveNat())) throw new Error('exit status 1: chains are left');
    });
    await kubeProxy.syncNftables();

    await waitForSync(cluster, 'm1', vipArguments);
    const { stdout } = await vipnat(cluster, 'm1', ['plan', '--json', ...vipArguments]);
    expect(JSON.parse(stdout)).toMatchObject({ kubeProxy: { mode: 'nftables' }, vips: [{ mode: 'direct' }] });
    await expectBalanced(cluster, client);
  });

  test('leaves no VIP on the frozen chain when kube-proxy’s clean-up failed for it and nobody tries again', async () => {
    await kubeProxy.cleanUp();
    await kubeProxy.syncNftables(listApiservers('ipv4').slice(0, 2));
    await agent.waitForLine(
      /direct to 10\.77\.0\.11:6443, 10\.77\.0\.12:6443: kube-proxy runs in proxy mode nftables/,
    );
    await expectAnswers(cluster, client, ['m1', 'm2'], 60);
  });

  test('of an agent that was killed fails kube-proxy until an agent is there again, and no longer', async () => {
    await agent.stop('SIGKILL');
    await expect(kubeProxy.sync([])).rejects.toThrow(/exit status [14]/);
    await expect(kubeProxy.sync([])).rejects.toThrow(/exit status [14]/);
    agent = await startAgent(cluster, 'm1', vipArguments);
    await kubeProxy.sync([]);
    expect(await saveNat()).not.toContain(serviceChain);
    await expectBalanced(cluster, client);
  });
});
