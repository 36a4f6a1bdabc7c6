import { expect, test } from '@jest/globals';
import { nodeReasons } from '../../../../lib/telemetry/reasons.ts';
import { FakeApiservers } from '../../../support/fakes/apiserver.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';
import {
  linesOf,
  ordinaryConfig,
  type RunningAgent,
  startAgent,
} from '../../../support/agent/running-agent.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;
const [own, second, third] = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'] as const;
const vip = '10.0.0.50:6443';
const direct = (...endpoints: readonly string[]) => `direct to ${endpoints.join(', ')}`;
const path = 'kube-proxy sends 10.96.0.1 to the same 3 apiservers (nat KUBE-SERVICES (iptables-nft))';

/** All reasons that these tests have heard of. */
const told = new Set<string>();

/** An agent on the first of three masters, and what it has recorded at its start. */
async function startOnMaster({ isForwarding = true, hasKubeProxy = true } = {}): Promise<RunningAgent> {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  kernel.forwarding = { ipv4: isForwarding, ipv6: true };
  kernel.addAddress({ family: 'ipv4', address: '10.77.0.11', device: 'eth0' });
  const endpoints = [own, second, third].map((text) => toEndpoint(text));
  if (hasKubeProxy) syncKubeProxy(kernel, nft, endpoints);
  const given = hasKubeProxy ? {} : { endpoints };
  const config = { ...ordinaryConfig, sysctls: 'check', ...given } as const;
  const running = startAgent({ clock, kernel, apiservers: new FakeApiservers(clock), config });
  await clock.advance(2000);
  return running;
}

/** What has been recorded since the last time. */
function listNews({ events }: RunningAgent): string[] {
  const news = events.recorded.splice(0);
  for (const event of news) told.add(event.split(' ')[0] ?? '');
  return news;
}

test('an agent that starts tells which way a VIP goes, and nothing more for an hour', async () => {
  const running = await startOnMaster();
  await running.clock.advance(3_600_000);
  expect(listNews(running)).toEqual([`WayChosen ${vip} starts in mode service-chain: ${path}`]);
});

test('an apiserver dies and returns: its death, the bypass, its return, the way as it was', async () => {
  const running = await startOnMaster();
  listNews(running);
  running.apiservers.set(third, 'refusing');
  await running.clock.advance(10_000);
  const bypass = `kube-proxy's list is out of date: it names 3 apiservers (nat KUBE-SERVICES (iptables-nft)), and 2 apiservers are usable (${third} is dead)`;
  expect(listNews(running)).toEqual([
    expect.stringMatching(/^ApiserverDead 10\.77\.0\.13:6443 is dead: connection refused/),
    `Bypassing ${vip} changes mode, service-chain -> ${direct(own, second)}: ${bypass}`,
  ]);
  running.apiservers.set(third, 'healthy');
  await running.clock.advance(30_000);
  expect(listNews(running)).toEqual([
    expect.stringMatching(/^ApiserverReady 10\.77\.0\.13:6443 is ready again after .* \(3 good answers\)$/),
    `WayChosen ${vip} changes mode, direct -> service-chain: ${path}`,
  ]);
});

test('an apiserver drains before it dies: both, and no step between', async () => {
  const running = await startOnMaster();
  listNews(running);
  running.apiservers.set(third, 'failing');
  await running.clock.advance(5000);
  running.apiservers.set(third, 'refusing');
  await running.clock.advance(5000);
  const news = listNews(running).filter((event) => event.startsWith('Apiserver'));
  expect(news.map((event) => event.split(':6443 is ')[0])).toEqual([
    'ApiserverDraining 10.77.0.13',
    'ApiserverDead 10.77.0.13',
  ]);
});

test('all apiservers die one after the other: their deaths, and no repair of what nobody else changed', async () => {
  const running = await startOnMaster({ hasKubeProxy: false });
  listNews(running);
  // All are kept again before a look has found the rules without the first.
  running.kernel.faults.delayEvery('iptables-nft-save', 200);
  for (const endpoint of [own, second, third]) {
    running.apiservers.set(endpoint, 'refusing');
    await running.clock.advance(1);
  }
  await running.clock.advance(10_000);
  expect(listNews(running).map((event) => event.split(' ')[0])).toEqual(Array(3).fill('ApiserverDead'));
  expect(linesOf(running, 'warn').filter((line) => line.startsWith('vipnat repaired'))).toEqual([]);
});

test('somebody changes our rules, again and again: repairs, a fight, and its end', async () => {
  const running = await startOnMaster();
  listNews(running);
  for (let count = 0; count < 60; count += 1) {
    running.kernel.run('ipv4', 'nft', '*nat\n-F OUTPUT\nCOMMIT\n');
    await running.clock.advance(100);
  }
  await running.clock.advance(180_000);
  const news = listNews(running);
  const drift = 'OUTPUT has no jump to VIPNAT (nat, iptables-nft)';
  expect([...new Set(news)]).toEqual([
    `RulesRepaired vipnat repaired its rules: ${drift}`,
    `RulesContested another program keeps undoing vipnat's rules: ${drift}`,
    "RulesUncontested no program has undone vipnat's rules for 60 s",
  ]);
});

test('what is only brought up to date is nothing to tell', async () => {
  const running = await startOnMaster();
  listNews(running);
  running.kernel.run('ipv4', 'nft', '*nat\n:VIPNAT-OLD - [0:0]\nCOMMIT\n');
  await running.clock.advance(2000);
  expect(linesOf(running, 'info').at(-1)).toMatch(/^vipnat updated its rules: /);
  expect(listNews(running)).toEqual([]);
});

test('a host that does not forward balances nothing, and with its own apiserver dead it cannot serve', async () => {
  const running = await startOnMaster({ isForwarding: false });
  expect(listNews(running)).toEqual([
    `NotBalanced ${vip} starts in mode passthrough: IP forwarding is off (net.ipv4.ip_forward is 0)`,
  ]);
  running.apiservers.set(own, 'refusing');
  await running.clock.advance(5000);
  running.apiservers.set(own, 'healthy');
  await running.clock.advance(30_000);
  expect(listNews(running).filter((event) => /Serve /.test(event))).toEqual([
    'CannotServe this node cannot serve the VIP: it cannot balance, and its own apiserver does not answer. The track file is 1, so keepalived keeps the VIP off this node',
    'CanServe this node can serve the VIP again. The track file is 0, so keepalived may take the VIP',
  ]);
});

test('a tool fails, and then works again', async () => {
  const running = await startOnMaster();
  listNews(running);
  running.kernel.faults.failNext({ tool: 'iptables-nft-save', code: 'TOOL_NOT_PERMITTED' });
  running.kernel.trigger('ipvs');
  await running.clock.advance(30_000);
  expect(listNews(running)).toEqual([
    'AgentFailing iptables-nft-save failed as the test asked',
    'AgentRecovered vipnat works again',
  ]);
});

test('another host has a VIP that this node holds, and gives it up', async () => {
  const running = await startOnMaster();
  running.kernel.addAddress({ family: 'ipv4', address: '10.0.0.50', device: 'eth0' });
  await running.clock.advance(2000);
  listNews(running);
  running.link.others.set('10.0.0.50', '02:00:00:00:00:99');
  await running.clock.advance(10_000);
  running.link.others.clear();
  await running.clock.advance(10_000);
  expect(listNews(running)).toEqual([
    'VipContested two hosts hold 10.0.0.50: this node, and the host with MAC 02:00:00:00:00:99, which answers ARP for it',
    'VipUncontested only this node holds 10.0.0.50 again: no other host answers ARP for it',
  ]);
});

test('these are all reasons of events about nodes', () => {
  expect([...told].sort()).toEqual([...nodeReasons].sort());
});
