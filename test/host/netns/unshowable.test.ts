import { vips } from '../../support/network/layout.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { vipnat, startAgent } from '../../support/host/vipnat.ts';
import { test, expect } from '@jest/globals';
import { startLoad, expectBalanced, expectNoneLost, client, vipArguments, endpoints } from './traffic.ts';
import { waitUntil } from '../../support/jest/waiting.ts';

const cluster = useCluster('each test');

const shell = (script: string) => cluster.shell('m1', script);
const command = (...args: readonly string[]) => vipnat(cluster, 'm1', args);

const hasOwnTable = async () => (await shell('nft list tables')).includes('table ip vipnat');

test('a table nat that holds a rule of nft is left alone, a table of our own balances meanwhile, and no connection is lost', async () => {
  await shell('iptables-nft -P FORWARD DROP');
  const agent = await startAgent(cluster, 'm1', [...vipArguments, '--endpoints', endpoints]);
  const load = startLoad(cluster, { host: vips.ipv4, port: 6443 }, 50);
  const set =
    'add set ip nat others { type ipv4_addr; }; add rule ip nat POSTROUTING ip saddr @others masquerade';
  await shell(`nft '${set}'`);
  await agent.waitForLine(/vipnat cannot read nat of iptables-nft .*--iptables none/);
  await waitUntil(hasOwnTable, 'no table of our own');
  await expectBalanced(cluster, client);
  const planned = await command('plan', '--json', ...vipArguments, '--endpoints', endpoints);
  expect(JSON.parse(planned.stdout)).toMatchObject({ kubeProxy: { backend: 'nftables' } });
  expect(await command('check', ...vipArguments, '--endpoints', endpoints)).toMatchObject({ exitCode: 0 });
  // The old rules are still there, behind the table of our own: nothing is translated twice.
  expect(await shell('nft list table ip nat')).toContain('jump VIPNAT');

  await shell('nft flush chain ip nat POSTROUTING; nft delete set ip nat others');
  await waitUntil(async () => !(await hasOwnTable()), 'the table of our own is still there');
  await expectBalanced(cluster, client);
  await expectNoneLost(load, 50);
  expect(await command('check', ...vipArguments, '--endpoints', endpoints)).toMatchObject({ exitCode: 0 });
});

test('where a table filter that holds a rule of nft drops what passes, the VIP is left to its holder until the owner accepts it', async () => {
  await shell("iptables-nft -P FORWARD DROP; nft 'add rule ip filter FORWARD fib daddr type broadcast drop'");
  const once = () => command('run', '--once', ...vipArguments, '--endpoints', endpoints);
  const refused = await once();
  expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('[TABLE_INCOMPATIBLE]') });
  expect(await hasOwnTable()).toBe(false);
  await shell(/nft insert rule .* accept/.exec(refused.stderr)?.[0] ?? 'false');
  expect(await once()).toMatchObject({ exitCode: 0 });
  await expectBalanced(cluster, client);
});
