import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { families } from '../../lib/address/address.ts';
import { toolName } from '../../lib/kernel/tool-name.ts';
import { Cluster } from '../network/cluster.ts';
import { vips } from '../network/layout.ts';
import { expectAnswers, expectBalanced, startProxies } from './traffic.ts';
import { type Agent, limitMs, startAgent, vipnat, waitForSync } from './vipnat.ts';

describe.each(families)('an apiserver that is gone (%s)', (family) => {
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
    ['is silent', 'DROP', /:6443 is dead: no answer to connects within 250 ms/],
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
        stdout: expect.stringContaining('is balanced as it should be (direct, 2 apiservers)'),
      });

      await shell('m3', `${tool} -F INPUT`);
      await agent.waitForLine(/:6443 is ready again after /, from);
      await waitForSync(cluster, 'm1', vipArguments);
      await agent.waitForLine(/direct -> service-chain: /, from);
      await expectBalanced(cluster, client);
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
      expect(stdout).toContain('should go the way direct');
      expect((await vipnat(cluster, 'm1', ['run', '--once', ...vipArguments])).exitCode).toBe(0);
      await expectAnswers(cluster, client, ['m1', 'm2']);
      expect((await check()).exitCode).toBe(0);
    },
    limitMs,
  );
});
