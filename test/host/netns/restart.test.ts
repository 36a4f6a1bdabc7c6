import { describe, expect, test } from '@jest/globals';
import { truncateSync } from 'node:fs';
import { join } from 'node:path';
import { useCluster } from '../../support/network/use-cluster.ts';
import { locateDisk } from '../../support/network/namespaces.ts';
import { vips } from '../../support/network/layout.ts';
import { expectBalanced, startProxies } from './traffic.ts';
import { startAgent, vipnat } from '../../support/host/vipnat.ts';

const vipArguments = ['--vip', vips.ipv4];
const client = { seat: 'outside client', host: vips.ipv4 } as const;

describe('a host that was restarted, with neither kube-proxy nor API', () => {
  let file = '';

  const cluster = useCluster('each test', async () => {
    file = join(locateDisk(cluster.namespaceOf('m1')), 'vipnat/endpoints.json');
    await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
    const agent = await startAgent(cluster, 'm1', vipArguments);
    await expectBalanced(cluster, client);
    await agent.stop();
    // What a kernel has after a restart.
    await cluster.shell('m1', 'nft flush ruleset');
  });

  test('balances over the apiservers that the agent last knew, and plan and check say the same', async () => {
    const agent = await startAgent(cluster, 'm1', vipArguments);
    expect(agent.log).toMatch(/direct to 10\.77\.0\.11:6443, 10\.77\.0\.12:6443, 10\.77\.0\.13:6443: /);
    await expectBalanced(cluster, client);
    expect(await vipnat(cluster, 'm1', ['check', ...vipArguments])).toMatchObject({ exitCode: 0 });
    const { stdout } = await vipnat(cluster, 'm1', ['plan', '--json', ...vipArguments]);
    expect(JSON.parse(stdout)).toMatchObject({ inSync: true, vips: [{ mode: 'direct' }] });
    await agent.stop();
  });

  test('leaves the VIP to its holder when the file is torn, and names it', async () => {
    truncateSync(file, 30);
    const agent = await startAgent(cluster, 'm1', vipArguments);
    expect(agent.log).toContain(`${file} is cut off, or is not a file of vipnat. vipnat ignores this file`);
    expect(agent.log).toMatch(/passthrough: /);
    await agent.stop();
  });
});
