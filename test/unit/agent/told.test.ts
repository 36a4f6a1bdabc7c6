import { type Beginning, play } from './timeline.ts';
import { type Host, listTexts } from './host.ts';
import { test, expect } from '@jest/globals';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { nodeReasons } from '../../../lib/telemetry/events.ts';

const vip = '10.0.0.50:6443';
const path = 'kube-proxy sends 10.96.0.1 to the same 3 apiservers (nat KUBE-SERVICES (iptables-nft))';
const bypass = `kube-proxy's list is out of date: it names 3 apiservers (nat KUBE-SERVICES (iptables-nft)), and 2 apiservers are usable (10.77.0.13:6443 is draining)`;
const drift = 'OUTPUT has no jump to VIPNAT (nat, iptables-nft)';
const cannotServe =
  'CannotServe this node cannot serve the VIP: it cannot balance, and its own apiserver does not answer. The track file is 1, so keepalived keeps the VIP off this node';
const canServe =
  'CanServe this node can serve the VIP again. The track file is 0, so keepalived may take the VIP';

/** An agent on the first of three masters. */
const onMaster = (more: Partial<Beginning> = {}, prepare: (host: Host) => void = () => undefined) => ({
  config: { sysctls: 'check', ...more.config } as const,
  prepare: (host: Host) => {
    host.kernel.addAddress({ family: 'ipv4', address: '10.77.0.11', device: 'eth0' });
    prepare(host);
  },
});

/** All reasons that these tests have heard of. */
const told = new Set<string>();

/** What is recorded while this happens, and not at the start of the agent. */
async function listNews(timeline: string, beginning: Beginning = onMaster()): Promise<string[]> {
  const { running } = await play(timeline, beginning);
  const news = running.events.recorded;
  for (const event of news) told.add(event.split(' ')[0] ?? '');
  return news;
}

const starts = `ModeChosen ${vip} starts in mode service-chain: ${path}`;

test.each<[string, string, unknown[]]>([
  ['an agent starts, and nothing happens for an hour', 'wait 3600000', []],
  [
    'an apiserver dies and returns: its death, the bypass, its return, the way as it was',
    'm3 refusing; wait 10000; m3 healthy; wait 30000',
    [
      `Bypassing ${vip} changes mode, service-chain -> direct to 10.77.0.11:6443, 10.77.0.12:6443: ${bypass}`,
      expect.stringMatching(/^ApiserverDead 10\.77\.0\.13:6443 is dead: connection refused/),
      expect.stringMatching(/^ApiserverReady 10\.77\.0\.13:6443 is ready again after .* \(3 good answers\)$/),
      `ModeChosen ${vip} changes mode, direct -> service-chain: ${path}`,
    ],
  ],
  [
    'a tool fails, and then works again',
    'fail iptables-nft-save as TOOL_NOT_PERMITTED; look; wait 30000',
    ['AgentFailing iptables-nft-save failed as the test asked', 'AgentRecovered vipnat works again'],
  ],
  [
    'what is only brought up to date is nothing to tell',
    'leave VIPNAT-OLD; wait 2000; 1 line of info ^vipnat updated its rules: ',
    [],
  ],
])('%s', async (_what, timeline, news) => {
  expect(await listNews(timeline)).toEqual([starts, ...news]);
});

test('an apiserver drains before it dies: both, and no step between', async () => {
  const news = await listNews('m3 failing; wait 5000; m3 refusing; wait 5000');
  const ofApiservers = news.filter((event) => event.startsWith('Apiserver'));
  expect(ofApiservers.map((event) => event.split(':6443 is ')[0])).toEqual([
    'ApiserverDraining 10.77.0.13',
    'ApiserverDead 10.77.0.13',
  ]);
});

test('all apiservers die one after the other: their deaths, and no repair of what nobody else changed', async () => {
  // All are kept again before a look has found the rules without the first.
  const news = await listNews(
    'before; start; wait 2000; delay iptables-nft-save 200; m1 refusing; wait 1; m2 refusing; wait 1; m3 refusing;' +
      'wait 10000; 0 lines of warn ^vipnat repaired',
    onMaster({ config: { endpoints: listTexts('m1 m2 m3').map(toEndpoint) } }),
  );
  expect(news.slice(1).map((event) => event.split(' ')[0])).toEqual(Array(3).fill('ApiserverDead'));
});

test('somebody changes our rules, again and again: repairs, a fight, and its end', async () => {
  const news = await listNews(`${'unhook OUTPUT; wait 100;'.repeat(60)} wait 180000`);
  expect([...new Set(news)]).toEqual([
    starts,
    `RulesRepaired vipnat repaired its rules: ${drift}`,
    `RuleConflict another program keeps undoing vipnat's rules: ${drift}`,
    "RulesUncontested no program has undone vipnat's rules for 60 s",
  ]);
});

test('a host that does not forward balances nothing, and with its own apiserver dead it cannot serve', async () => {
  const beginning = onMaster({}, ({ kernel }) => (kernel.forwarding = { ipv4: false, ipv6: true }));
  const news = await listNews('m1 refusing; wait 5000; m1 healthy; wait 30000', beginning);
  expect(news.filter((event) => /Serve |Balanced /.test(event))).toEqual([
    `NotBalanced ${vip} starts in mode passthrough: IP forwarding is off (net.ipv4.ip_forward is 0)`,
    cannotServe,
    canServe,
  ]);
});

test('another host has a VIP that this node holds, and gives it up', async () => {
  const { running, clock } = await play(
    'wait 0',
    onMaster({}, ({ kernel }) => {
      kernel.addAddress({ family: 'ipv4', address: '10.0.0.50', device: 'eth0' });
    }),
  );
  running.link.others.set('10.0.0.50', '02:00:00:00:00:99');
  await clock.advance(10_000);
  running.link.others.clear();
  await clock.advance(10_000);
  const news = running.events.recorded.slice(1);
  for (const event of news) told.add(event.split(' ')[0] ?? '');
  expect(news).toEqual([
    'VipConflict two hosts hold 10.0.0.50: this node, and the host with MAC 02:00:00:00:00:99, which answers ARP for it',
    'VipUncontested only this node holds 10.0.0.50 again: no other host answers ARP for it',
  ]);
});

test('these are all reasons of events about nodes', () => {
  expect([...told].sort()).toEqual([...nodeReasons].sort());
});
