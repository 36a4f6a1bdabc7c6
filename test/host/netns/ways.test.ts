import { vips, listApiservers } from '../../support/network/layout.ts';
import { families, formatEndpoint } from '../../../lib/net.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { vipnat, startAgent } from '../../support/host/vipnat.ts';
import { describe, test, expect } from '@jest/globals';
import { pairs } from '../../support/jest/pairs.ts';
import { toolName } from '../../../lib/kernel/port.ts';
import {
  createProxies,
  startProxies,
  expectBalanced,
  expectAnswers,
  client,
  vipArguments,
  bothVips,
  allEndpoints,
} from './traffic.ts';
import { seatNames } from '../../support/network/cluster.ts';

const cluster = useCluster('each test');

async function readWays(machine: string, args: readonly string[]) {
  const { stdout } = await vipnat(cluster, machine, ['plan', '--json', ...args]);
  const { vips: answers } = JSON.parse(stdout) as { vips: { vip: string; mode: string }[] };
  return answers.map(({ vip, mode }) => `${vip} ${mode}`);
}

describe.each(pairs)('a VIP holder with FORWARD policy DROP: %s, iptables-%s', (family, dialect) => {
  const tool = toolName(family, dialect);
  const question = { seat: 'outside client', host: vips[family] } as const;

  test('forwards what is balanced, also after somebody took our hook out of FORWARD', async () => {
    await startProxies(cluster, ['m1'], dialect, [family]);
    await cluster.shell('m1', `${tool} -P FORWARD DROP`);
    const agent = await startAgent(cluster, 'm1', ['--vip', vips[family]]);
    await expectBalanced(cluster, question);

    const hook = (await cluster.shell('m1', `${tool} -S FORWARD | grep VIPNAT-FORWARD`)).replace('-A', '-D');
    await cluster.shell('m1', `${tool} ${hook}`);
    await agent.waitForLine(/vipnat repaired its rules: FORWARD has no jump to VIPNAT-FORWARD/);
    await expectBalanced(cluster, question);
  });

  test('without our rules there, drops what goes to the other masters', async () => {
    await cluster.shell('m1', `${tool} -P FORWARD DROP`);
    const endpoints = listApiservers(family).map(formatEndpoint).join(',');
    await vipnat(cluster, 'm1', ['run', '--once', '--vip', vips[family], '--endpoints', endpoints]);
    await cluster.shell(
      'm1',
      `${tool} -F VIPNAT-FORWARD 2>/dev/null || ${toolName(family, 'nft')} -F VIPNAT-FORWARD`,
    );
    const seat = cluster.seat('outside client');
    // None of three apiservers is left out by 20, but once in a thousand times; a short limit, as some are dropped.
    const { apiservers, errors } = await seat.request(vips[family], 6443, 20, 2000);
    expect(Object.keys(apiservers)).not.toContain('m2');
    expect(errors['timeout']).toBeGreaterThan(0);
  });
});

test('without kube-proxy, --endpoints are balanced over directly from every seat, for both families', async () => {
  const args = [...bothVips, '--endpoints', allEndpoints];
  await Promise.all(['m1', 'm2', 'm3'].map((name) => startAgent(cluster, name, args)));
  expect(await readWays('m1', args)).toEqual(['10.77.0.50:6443 direct', '[fd77::50]:6443 direct']);
  for (const seat of seatNames)
    for (const family of families) await expectBalanced(cluster, { seat, host: vips[family] });
});

test('with kube-proxy in nftables mode, its endpoints are balanced over directly, and followed when they change', async () => {
  const proxies = createProxies(cluster, ['m1'], 'nft', families);
  await Promise.all(proxies.map((proxy) => proxy.syncNftables()));
  const agent = await startAgent(cluster, 'm1', bothVips);
  for (const family of families) {
    await expectBalanced(cluster, { seat: 'outside client', host: vips[family] });
    await expectBalanced(cluster, { seat: "VIP holder's host", host: vips[family] });
  }
  const seen = agent.log.length;
  await proxies[0]?.syncNftables(listApiservers('ipv4').slice(0, 2));
  await agent.waitForLine(/50:6443 changes apiservers, now direct to .*\.11:6443, 10\.77\.0\.12:6443:/, seen);
  await expectAnswers(cluster, client, ['m1', 'm2'], 60);
});

test('with --masquerade kube-mark, kube-proxy’s own rule rewrites the source and ours is not there', async () => {
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
  await startAgent(cluster, 'm1', [...vipArguments, '--masquerade', 'kube-mark']);
  const nat = await cluster.shell('m1', 'iptables-nft-save -t nat');
  expect(nat).not.toContain('VIPNAT-POSTROUTING');
  expect(nat).toMatch(/-A VIPNAT-\w{10} .*-j KUBE-MARK-MASQ/);
  const { from } = await expectBalanced(cluster, client);
  expect(Object.keys(from).sort()).toEqual(['10.77.0.100', '10.77.0.11']);
});

test('with --masquerade none, clients whose replies find back through the holder keep their address everywhere', async () => {
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
  // As where the holder is the masters' router: on one wire replies would go past it.
  for (const name of ['m2', 'm3']) await cluster.shell(name, 'ip route add 10.77.0.100 via 10.77.0.11');
  await startAgent(cluster, 'm1', [...vipArguments, '--masquerade', 'none']);
  const { from } = await expectBalanced(cluster, client);
  expect(from).toEqual({ '10.77.0.100': 60 });
});

test('one agent balances several VIPs, ports and families, each its own way round', async () => {
  await cluster.shell('m1', 'ip addr add 10.77.0.51/32 dev eth0');
  await startProxies(cluster, ['m1'], 'nft', families);
  const asked = ['10.77.0.50', '10.77.0.50:8443', '10.77.0.51:443', '[fd77::50]:9443'];
  const args = asked.flatMap((vip) => ['--vip', vip]);
  await startAgent(cluster, 'm1', args);
  expect(await readWays('m1', args)).toEqual([
    '10.77.0.50:6443 service-chain',
    '10.77.0.50:8443 service-chain',
    '10.77.0.51:443 service-chain',
    '[fd77::50]:9443 service-chain',
  ]);
  await expectBalanced(cluster, client);
  await expectBalanced(cluster, { ...client, port: 8443 });
  await expectBalanced(cluster, { ...client, host: '10.77.0.51', port: 443 });
  await expectBalanced(cluster, { ...client, host: vips.ipv6, port: 9443 });
  // A port of the holder's that nobody asked to balance stays the holder's.
  await expectAnswers(cluster, { ...client, host: '10.77.0.51' }, ['m1']);
});

test('a host that was restarted, with neither kube-proxy nor API, balances over the apiservers that the agent last knew; plan and check say the same', async () => {
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
  const former = await startAgent(cluster, 'm1', vipArguments);
  await expectBalanced(cluster, client);
  await former.stop();
  // What a kernel has after a restart.
  await cluster.shell('m1', 'nft flush ruleset');
  const agent = await startAgent(cluster, 'm1', vipArguments);
  expect(agent.log).toMatch(/direct to 10\.77\.0\.11:6443, 10\.77\.0\.12:6443, 10\.77\.0\.13:6443: /);
  await expectBalanced(cluster, client);
  expect(await vipnat(cluster, 'm1', ['check', ...vipArguments])).toMatchObject({ exitCode: 0 });
  const { stdout } = await vipnat(cluster, 'm1', ['plan', '--json', ...vipArguments]);
  expect(JSON.parse(stdout)).toMatchObject({ inSync: true, vips: [{ mode: 'direct' }] });
});
