import { families } from '../../../lib/net.ts';
import { vips, masters, outsider, clusterIps } from '../../support/network/layout.ts';
import { describe, test, expect, beforeAll } from '@jest/globals';
import { shownDialects } from '../../support/jest/pairs.ts';
import { type Agent, startAgent, vipnat } from '../../support/host/vipnat.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { startProxies, expectBalanced, bothVips } from './traffic.ts';
import { seatNames } from '../../support/network/cluster.ts';

const masterNames = masters.map(({ name }) => name);

describe.each(shownDialects)('with kube-proxy in iptables mode on iptables-%s', (dialect) => {
  let agents: Agent[];

  const cluster = useCluster('all tests', async () => {
    await startProxies(cluster, [...masterNames, 'worker'], dialect, families);
    // A stand-in that waits for the processor is not to be taken for dead: that would be a reason to write.
    const patient = [...bothVips, '--probe-timeout', '1500ms'];
    agents = await Promise.all(masterNames.map((name) => startAgent(cluster, name, patient)));
  });

  test.each(masterNames)('the agent on %s joins kube-proxy’s chain for both VIPs', async (name) => {
    const { exitCode, stdout } = await vipnat(cluster, name, ['check', ...bothVips]);
    const words = 'is balanced, and its rules are in sync (service-chain, 3 apiservers)';
    const lines = ['10.77.0.50:6443', '[fd77::50]:6443'].map((vip) => `${vip} ${words}`);
    expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: lines.join('\n') });
  });

  describe.each(families)('%s', (family) => {
    const vip = vips[family];

    test.each(seatNames)('from the %s, no request fails and every apiserver is reached', async (seat) => {
      await expectBalanced(cluster, { seat, host: vip });
    });

    test('the VIP holder’s apiserver sees the client’s own address, the others see the holder’s', async () => {
      const { apiservers, from } = await expectBalanced(cluster, { seat: 'outside client', host: vip });
      const { m1 = 0, m2 = 0, m3 = 0 } = apiservers;
      expect(from).toEqual({
        [outsider.addresses[family]]: m1,
        [masters[0]?.addresses[family] ?? '']: m2 + m3,
      });
    });

    const insiders = ['pod on a worker', 'pod on a master', 'another master'] as const;
    test.each(insiders)('from the %s, the ClusterIP goes through kube-proxy as ever', async (seat) => {
      await expectBalanced(cluster, { seat, host: clusterIps[family], port: 443 });
    });
  });

  describe('after the VIPs moved to m2', () => {
    beforeAll(() => cluster.moveVips('m2'));

    describe.each(families)('%s', (family) => {
      test.each(seatNames)('from the %s, no request fails and every apiserver is reached', async (seat) => {
        await expectBalanced(cluster, { seat, host: vips[family] });
      });
    });

    test('the new holder’s agent noticed, and wrote nothing for it', async () => {
      await agents[1]?.waitForLine(/this node holds fd77::50/);
      expect(agents.map(({ log }) => log).join('')).not.toMatch(/repaired|updated its rules/);
    });
  });
});
