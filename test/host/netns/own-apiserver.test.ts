import { describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { onlyFull } from '../../support/jest/extent.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { masters, vips } from '../../support/network/layout.ts';
import { locateDisk } from '../../support/network/namespaces.ts';
import { expectAnswers } from './traffic.ts';
import { startAgent, vipnat } from '../../support/host/vipnat.ts';

/** Of the network before the move: nobody has them any more. */
const oldAddresses = {
  ipv4: '10.77.0.211:6443,10.77.0.212:6443,10.77.0.213:6443',
  ipv6: '[fd77::211]:6443,[fd77::212]:6443',
};

const shown = ['ipv4', ...onlyFull('ipv6' as const)] as const;

describe.each(shown)('a master without kube-proxy that knows old addresses alone (%s)', (family) => {
  const args = ['--vip', family === 'ipv6' ? `[${vips.ipv6}]:6443` : vips.ipv4];
  const known = ['--endpoints', oldAddresses[family], ...args];
  const client = { seat: 'outside client', host: vips[family] } as const;
  const own = masters[0]?.addresses[family] ?? '';

  const cluster = useCluster('all tests');

  test('sends the VIP to its own apiserver, keeps it, and says so; plan and check agree', async () => {
    const agent = await startAgent(cluster, 'm1', known);
    await agent.waitForLine(
      /direct to \S+:6443: .*1 apiserver is usable \(this node's own, which no source lists, because /,
    );
    expect(agent.log).toContain(`direct to ${family === 'ipv6' ? `[${own}]` : own}:6443: `);
    await expectAnswers(cluster, client, ['m1']);
    const file = join(locateDisk(cluster.namespaceOf('m1')), 'run/keepalived/serving');
    expect(readFileSync(file, 'utf8')).toBe('0\n');
    expect(await vipnat(cluster, 'm1', ['check', ...known])).toMatchObject({ exitCode: 0 });
    await agent.stop('SIGKILL');
    // Also what looks once and has to find it out itself.
    expect(await vipnat(cluster, 'm1', ['check', ...known])).toMatchObject({ exitCode: 0 });
    await cluster.shell('m1', 'nft flush ruleset');
    const { stdout } = await vipnat(cluster, 'm1', ['plan', ...known]);
    expect(stdout).toContain("this node's own, which no source lists");
  });
});
