import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { toolName } from '../../../lib/kernel/tools/tool-name.ts';
import { onlyFull } from '../../support/jest/extent.ts';
import { Cluster } from '../../support/network/cluster.ts';
import { vips } from '../../support/network/layout.ts';
import { expectAnswers, expectBalanced, startProxies } from './traffic.ts';
import { type Agent, limitMs, startAgent, vipnat, waitForSync } from '../../support/host/vipnat.ts';

/** None or all of so many are on one of three apiservers once in ten million times. */
const connections = 40;

describe.each(['ipv4', ...onlyFull('ipv6' as const)] as const)('an apiserver that is gone (%s)', (family) => {
  const vipArguments = ['--vip', family === 'ipv6' ? `[${vips.ipv6}]:6443` : vips.ipv4];
  const client = { seat: 'outside client', host: vips[family] } as const;
  const tool = toolName(family, 'nft');
  let cluster: Cluster;
  let agent: Agent;

  beforeAll(async () => {
    cluster = await Cluster.create();
    await startProxies(cluster, ['m1'], 'nft', [family]);
    agent = await startAgent(cluster, 'm1', vipArguments);
  }, limitMs);

  afterEach(() => shell('m3', `${tool} -F INPUT`), limitMs);

  afterAll(async () => {
    await (agent as Agent | undefined)?.stop();
    await (cluster as Cluster | undefined)?.close();
  }, limitMs);

  const shell = (machine: string, script: string) =>
    cluster.namespaces.shell(cluster.namespaceOf(machine), script);
  const check = () => vipnat(cluster, 'm1', ['check', ...vipArguments]);

  /** m3 treats what comes to its apiserver like this. */
  const treat = (target: string) => shell('m3', `${tool} -I INPUT -p tcp --dport 6443 -j ${target}`);

  test.each([
    ['refuses', 'REJECT --reject-with tcp-reset', /:6443 is dead: connection refused/],
    ['is silent', 'DROP', /:6443 is dead: no answer to TCP connects within 250 ms/],
  ])(
    'and %s gets no new connections, for check the rules are right, and it comes back',
    async (_how, target, line) => {
      const from = agent.log.length;
      await treat(target);
      await agent.waitForLine(line, from);
      await agent.waitForLine(/service-chain -> direct to /, from);
      await expectAnswers(cluster, client, ['m1', 'm2']);
      expect(await check()).toMatchObject({
        exitCode: 0,
        stdout: expect.stringContaining('is balanced, and its rules are in sync (direct, 2 apiservers)'),
      });

      await shell('m3', `${tool} -F INPUT`);
      await agent.waitForLine(/:6443 is ready again after /, from);
      await waitForSync(cluster, 'm1', vipArguments);
      await agent.waitForLine(/direct -> service-chain: /, from);
      await expectBalanced(cluster, client);
    },
    limitMs,
  );

  // Takes 8 s, and which family it is makes no difference to conntrack.
  if (family === 'ipv4')
    test(
      'and is silent has its open connections reset, and nobody else’s',
      async () => {
        const from = agent.log.length;
        const seat = cluster.seat('pod on a worker');
        const { report } = await seat.hold({ host: client.host, port: 6443 }, connections, limitMs);
        await treat('DROP');
        await agent.waitForLine(/ vipnat reset \d+ stale connections? of \S+ to .*:6443/, from);
        seat.settle();
        const { errors } = await report;
        expect(Object.keys(errors)).toEqual(['ECONNRESET']);
        expect(errors['ECONNRESET']).toBeLessThan(connections);

        await shell('m3', `${tool} -F INPUT`);
        await agent.waitForLine(/:6443 is ready again after /, from);
        await waitForSync(cluster, 'm1', vipArguments);
      },
      limitMs,
    );

  test(
    'is found by plan and check themselves where no agent runs',
    async () => {
      await agent.stop();
      await treat('DROP');
      const { exitCode, stdout } = await check();
      expect(exitCode).toBe(2);
      expect(stdout).toContain('should have the balancing mode direct');
      expect((await vipnat(cluster, 'm1', ['run', '--once', ...vipArguments])).exitCode).toBe(0);
      await expectAnswers(cluster, client, ['m1', 'm2']);
      expect((await check()).exitCode).toBe(0);
    },
    limitMs,
  );
});
