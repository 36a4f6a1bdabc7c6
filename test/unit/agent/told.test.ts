import { type Beginning, play } from './timeline.ts';
import { type Host, listTexts } from './host.ts';
import { test, expect, describe } from '@jest/globals';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { nodeEvents } from '../../../lib/telemetry/events.ts';
import type { Config } from '../../../config/options.ts';
import { type RunningAgent, startAgent, ordinaryConfig, linesOf } from '../../support/agent/running-agent.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { formatEndpoint } from '../../../lib/net.ts';

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
      expect.stringMatching(
        /^Bypassing .* now direct to .*13:6443: kube-proxy's list has matched .* for only one sync$/,
      ),
      `ModeChosen ${vip} changes mode, direct -> service-chain: ${path}`,
    ],
  ],
  [
    'a tool fails, and then works again',
    'fail iptables-nft-save as TOOL_NOT_PERMITTED; look; wait 30000',
    ['AgentFailing iptables-nft-save failed as the test asked', 'AgentRecovered vipnat works again'],
  ],
  ['rules brought up to date', 'leave VIPNAT-OLD; wait 2000; 1 line of info ^vipnat updated its rules: ', []],
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
  const deaths = Array<string>(3).fill('ApiserverDead');
  expect(news.map((one) => one.split(' ')[0])).toEqual(['ModeChosen', ...deaths, 'ModeChosen', 'Bypassing']);
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

// vip-holder.test.ts hears of the holders' own.
test('these are all reasons of events about nodes', () => {
  const ofHolders = ['VipConflict', 'VipUncontested'];
  expect([...told, ...ofHolders].sort()).toEqual(Object.keys(nodeEvents).sort());
});

const sides = {
  ipv4: { vip: '10.77.0.50:6443', others: ['10.77.0.11:6443', '10.77.0.12:6443'], own: '10.77.0.13' },
  ipv6: { vip: '[fd77::50]:6443', others: ['[fd77::11]:6443', '[fd77::12]:6443'], own: 'fd77::13' },
} as const;
const remedy = "Set --advertise-address of each kube-apiserver to its own host's address";

/** Whom the cluster names, and how vipnat is started. */
interface Setting {
  readonly named: readonly string[];
  readonly settings?: Partial<Config>;
  readonly isInApi?: boolean;
}

/** On a master that has the VIP, as kubeadm leaves it with `--apiserver-advertise-address` set to the VIP. */
async function startOnHolder(
  family: 'ipv4' | 'ipv6',
  { named, settings = {}, isInApi = false }: Setting,
): Promise<RunningAgent> {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  const vip = toEndpoint(sides[family].vip);
  for (const address of [sides[family].own, vip.address])
    kernel.addAddress({ family, address, device: 'eth0' });
  syncKubeProxy(kernel, { family, dialect: 'nft' }, named.map(toEndpoint));
  const running = startAgent({ clock, kernel, config: { ...ordinaryConfig, vips: [vip], ...settings } });
  if (isInApi) {
    await clock.advance(10);
    running.api.list(family, named);
  }
  await clock.advance(120_000);
  return running;
}

function listTargets({ kernel }: RunningAgent, family: 'ipv4' | 'ipv6'): string[] {
  const rules = kernel
    .show(family, 'nft')
    .matchAll(/^-A VIPNAT-[0-9a-f]{10} .*(?:--to-destination|-j) (\S+:6443|KUBE-SVC-\S+)$/gm);
  return [...rules].map(([, target = '']) => target);
}

describe.each(['ipv4', 'ipv6'] as const)('an apiserver that advertises the VIP itself, %s', (family) => {
  const { vip, others, own } = sides[family];

  test.each([false, true])('alone: the holder serves, and the reason is true (API %s)', async (isInApi) => {
    const running = await startOnHolder(family, { named: [vip], isInApi });
    expect(listTargets(running, family)).toEqual([]);
    const lines = linesOf(running, 'warn');
    expect(lines).toContainEqual(
      expect.stringContaining(
        `passthrough: no apiserver is known (no source lists a usable one: ${vip} is the address of a virtual IP)`,
      ),
    );
    const sources = isInApi ? 2 : 1;
    expect(lines.filter((line) => line.endsWith(remedy))).toHaveLength(sources);
    expect(lines.join()).not.toContain('and --endpoints name none');
    expect([running.store.saves, running.trackFile.values.at(-1)]).toEqual([[], 0]);
    expect(running.kernel.breaches).toEqual([]);
  });

  test('beside two others: these are balanced over, and only they are remembered', async () => {
    const running = await startOnHolder(family, { named: [...others, vip], isInApi: true });
    expect(listTargets(running, family)).toEqual(others);
    const saved = running.store.saves.map(({ endpoints, former = [] }) =>
      [...endpoints, ...former].map(formatEndpoint),
    );
    expect(saved).toEqual([[...others]]);
    expect(running.trackFile.values.at(-1)).toBe(0);
  });

  test('the others gone: this host’s own apiserver serves at the host’s address, never at the VIP', async () => {
    const running = await startOnHolder(family, { named: [...others, vip] });
    for (const text of others) running.apiservers.set(text, 'refusing');
    await running.clock.advance(60_000);
    expect(listTargets(running, family)).toEqual([formatEndpoint({ family, address: own, port: 6443 })]);
    expect(running.trackFile.values.at(-1)).toBe(0);
  });

  test.each([[[vip]], [[...others, vip]]])('a chain to %s is not followed when asked for', async (named) => {
    const running = await startOnHolder(family, { named, settings: { mode: 'service-chain' } });
    expect(listTargets(running, family)).toEqual([]);
    expect(linesOf(running, 'warn').join('\n')).toContain(
      `--mode service-chain is set, but kube-proxy's rules lead to ${vip}, the address of a virtual IP`,
    );
  });
});
