import { describe, afterEach, test, expect } from '@jest/globals';
import { onlyFull } from '../../support/jest/extent.ts';
import { vips } from '../../support/network/layout.ts';
import { toolName } from '../../../lib/kernel/port.ts';
import { type Agent, startAgent, vipnat, waitForSync, limitMs } from '../../support/host/vipnat.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { startProxies, expectAnswers, expectBalanced, expectUnharmed } from './traffic.ts';
import { sleep, WaitedTooLong } from '../../support/jest/waiting.ts';

/** A machine that makes it last for longer shows nothing: after five seconds connections are lost. */
const longestSilenceMs = 4500;

/** None or all of so many are on one of three apiservers once in ten million times. */
const connections = 40;

describe.each(['ipv4', ...onlyFull('ipv6' as const)] as const)('an apiserver that is gone (%s)', (family) => {
  const vipArguments = ['--vip', family === 'ipv6' ? `[${vips.ipv6}]:6443` : vips.ipv4];
  const client = { seat: 'outside client', host: vips[family] } as const;
  const tool = toolName(family, 'nft');
  let agent: Agent;

  const cluster = useCluster('all tests', async () => {
    await startProxies(cluster, ['m1'], 'nft', [family]);
    agent = await startAgent(cluster, 'm1', vipArguments);
  });

  afterEach(() => cluster.shell('m3', `${tool} -F INPUT`));

  const check = () => vipnat(cluster, 'm1', ['check', ...vipArguments]);

  /** m3 treats what comes to its apiserver like this. */
  const treat = (target: string) => cluster.shell('m3', `${tool} -I INPUT -p tcp --dport 6443 -j ${target}`);

  test.each([
    ['refuses', 'REJECT --reject-with tcp-reset', /:6443 is dead: connection refused/],
    ['is silent', 'DROP', /:6443 is dead: no answer to TCP connects within 250 ms/],
  ])('and %s gets no new connections, check finds nothing, and it comes back', async (_how, target, line) => {
    const from = agent.log.length;
    await treat(target);
    await agent.waitForLine(line, from);
    await agent.waitForLine(/service-chain -> direct to /, from);
    await expectAnswers(cluster, client, ['m1', 'm2']);
    expect(await check()).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('is balanced, and its rules are in sync (direct, 2 apiservers)'),
    });

    await cluster.shell('m3', `${tool} -F INPUT`);
    await agent.waitForLine(/:6443 is ready again after /, from);
    await waitForSync(cluster, 'm1', vipArguments);
    await agent.waitForLine(/direct -> service-chain: /, from);
    await expectBalanced(cluster, client);
  });

  // Which family it is makes no difference to conntrack.
  if (family === 'ipv4') {
    test('and whose guest is stunned for 2 s, and whose link fails over in 3 s then, keeps its open connections', async () => {
      const from = agent.log.length;
      const seat = cluster.seat('pod on a worker');
      const { report } = await seat.hold({ host: client.host, port: 6443 }, connections, limitMs);
      cluster.apiserver('m2').freeze();
      await silence(2000, 'iptables-nft -I INPUT -p tcp --dport 6443 -j DROP', 'iptables-nft -F INPUT');
      cluster.apiserver('m2').thaw();
      await agent.waitForLine(/:6443 is dead: no answer/, from);
      await sleep(1000);
      await silence(3000, 'ip link set eth0 down', 'ip link set eth0 up');
      seat.settle();
      expectUnharmed(await report, connections);
      expect(agent.log.slice(from)).not.toMatch(/ vipnat reset /);
      await agent.waitForLine(/:6443 is ready again after /, from);
      await waitForSync(cluster, 'm1', vipArguments);
    });

    /** m2 is not heard for a while. m3 would be kept out for half a minute, as it comes and goes too often. */
    async function silence(ms: number, begin: string, end: string): Promise<void> {
      const startedAt = performance.now();
      await cluster.shell('m2', begin);
      await sleep(ms);
      await cluster.shell('m2', end);
      const lastedMs = performance.now() - startedAt;
      if (lastedMs > longestSilenceMs) throw new WaitedTooLong(`the silence lasted for ${lastedMs} ms`);
    }

    test('and is silent has its open connections reset, and nobody else’s', async () => {
      const from = agent.log.length;
      const seat = cluster.seat('pod on a worker');
      const { report } = await seat.hold({ host: client.host, port: 6443 }, connections, limitMs);
      await treat('DROP');
      await agent.waitForLine(/ vipnat reset \d+ stale connections? of \S+ to .*:6443/, from);
      seat.settle();
      const { errors } = await report;
      expect(Object.keys(errors)).toEqual(['ECONNRESET']);
      expect(errors['ECONNRESET']).toBeLessThan(connections);

      await cluster.shell('m3', `${tool} -F INPUT`);
      await agent.waitForLine(/:6443 is ready again after /, from);
      await waitForSync(cluster, 'm1', vipArguments);
    });
  }

  test('is found by plan and check themselves where no agent runs', async () => {
    await agent.stop();
    await treat('DROP');
    const { exitCode, stdout } = await check();
    expect(exitCode).toBe(2);
    expect(stdout).toContain('should have the balancing mode direct');
    expect((await vipnat(cluster, 'm1', ['run', '--once', ...vipArguments])).exitCode).toBe(0);
    await expectAnswers(cluster, client, ['m1', 'm2']);
    expect((await check()).exitCode).toBe(0);
  });
});
