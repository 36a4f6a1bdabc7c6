import { listTexts, nft } from './host.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { describe, test, expect } from '@jest/globals';
import { play, testAgent } from './timeline.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { startAgent, ordinaryConfig, linesOf } from '../../support/agent/running-agent.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { restoreCaptures, lookOnce, decisionOf } from '../../support/agent/captured-host.ts';
import { applyPlan } from '../../../agent/sync.ts';

const three = listTexts('m1 m2 m3').map(toEndpoint);

describe('an agent that starts', () => {
  test('writes once and looks once more, at once', async () => {
    const { kernel } = await play('before; proxy m1 m2 m3; start; wait 1; hooked; writes 1');
    expect(kernel.reads).toBe(2);
  });

  test('sees what changed between its first look and the first look of its watch', async () => {
    const { kernel } = await play('before; proxy m1 m2 m3; start; wait 1', {
      prepare: (host) => {
        host.kernel.watch = () => ({ ready: Promise.resolve(), stop: () => Promise.resolve() });
      },
    });
    expect(kernel.reads).toBeGreaterThanOrEqual(2);
  });
});

describe('a quiet host', () => {
  test('costs one look a minute and no write, and nothing is logged (I7)', async () => {
    const { kernel, clock, running } = await play('wait 0');
    const [reads, writes, lines] = [kernel.reads, kernel.applied.length, running.logger.lines.length];
    await clock.advance(600_000);
    expect([
      kernel.reads - reads,
      kernel.applied.length - writes,
      running.logger.lines.length - lines,
    ]).toEqual([10, 0, 0]);
    // Nor does somebody who only looks cost a write.
    kernel.trigger('xtables-lock');
    await clock.advance(1000);
    expect([kernel.reads - reads > 10, kernel.applied.length - writes]).toEqual([true, 0]);
  });

  test('is looked at as often as it is told', async () => {
    const clock = new FakeClock();
    const { kernel } = startAgent({ clock, ports: { tickMs: 200_000 } });
    await clock.advance(2000);
    const { reads } = kernel;
    await clock.advance(600_000);
    expect(kernel.reads - reads).toBe(3);
  });
});

describe('triggers', () => {
  testAgent({
    'when a stranger deletes our hook, it is back within a blink': 'unhook; unhooked; wait 80; hooked',
    // Heard after 50 ms, settled after 5, seen by a look of 200.
    'of a hook that is deleted again and again do not wait for the rest that looks owe':
      'delay iptables-nft-save 200; unhook; wait 260; hooked; wait 500; unhook; wait 260; hooked',
  });

  test('of one burst are one look', async () => {
    const { clock, kernel } = await play('wait 0');
    const { reads } = kernel;
    for (let change = 0; change < 15; change += 1) {
      kernel.run('ipv4', 'nft', `*nat\n:KUBE-SEP-${change} - [0:0]\nCOMMIT\n`);
      await clock.advance(1);
    }
    await clock.advance(100);
    expect(kernel.reads - reads).toBe(1);
  });

  testAgent(
    {
      // The look has read, and waits for kube-proxy's answer.
      'that come during a look are followed by another one soon':
        'hooked; look; wait 100; unhook; unhooked; wait 1000; hooked',
    },
    { world: { answerMs: 200 } },
  );

  test('where something writes all the time, looks get rarer, and a quiet second later they come at once again', async () => {
    const { clock, kernel } = await play('wait 0');
    const { reads } = kernel;
    const show = () => kernel.show('ipv4', 'nft');
    for (let change = 0; change < 600; change += 1) {
      kernel.run('ipv4', 'nft', `*filter\n-A INPUT -p udp -m udp --dport ${change} -j ACCEPT\nCOMMIT\n`);
      await clock.advance(100);
    }
    expect(kernel.reads - reads).toBeGreaterThan(10);
    expect(kernel.reads - reads).toBeLessThan(75);
    await clock.advance(3000);
    kernel.run('ipv4', 'nft', '*nat\n-F PREROUTING\nCOMMIT\n');
    await clock.advance(80);
    expect(show()).toMatch(/-A PREROUTING .*-j VIPNAT\n/);
  });
});

test('the bypass is left half a second after kube-proxy has caught up', async () => {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  const legacy = { family: 'ipv4', dialect: 'legacy' } as const;
  syncKubeProxy(kernel, nft, three);
  syncKubeProxy(kernel, legacy, three.slice(1));
  const agent = startAgent({ clock, kernel, config: { ...ordinaryConfig, iptables: 'legacy' } });
  await clock.advance(2000);
  syncKubeProxy(kernel, legacy, three);
  await clock.advance(1000);
  expect(linesOf(agent, 'info')).toEqual([
    expect.stringContaining('direct to 10.77.0.11:6443'),
    expect.stringContaining('direct -> service-chain'),
  ]);
});

describe('a failure', () => {
  test('is said once however long it lasts, and tried again more and more rarely; its end is said too', async () => {
    const host = await play('mark; fail iptables-nft-save 8 times');
    const { kernel, clock } = host;
    kernel.faults.failNext({ tool: 'iptables-nft-save', code: 'TOOL_NOT_PERMITTED' });
    const [before, { reads }, writes] = [clock.now(), kernel, kernel.applied.length];
    kernel.trigger('nft-generation');
    while (kernel.reads === reads) {
      await clock.advance(10);
      expect(clock.now() - before).toBeLessThan(70 + 50 * 2 ** 9);
    }
    // 50 ms, doubled eight times.
    expect(clock.now() - before).toBeGreaterThan(50 * (2 ** 8 - 1));
    expect(host.lines('error')).toEqual([
      'iptables-nft-save failed as the test asked. The last good rules stay. vipnat tries again in 100 ms',
    ]);
    expect(host.lines('info').at(-1)).toMatch(/^vipnat works again after \d+ s$/);
    expect(kernel.applied).toHaveLength(writes);
  });

  testAgent({
    'of a tool that hangs leaves the rules, and the agent goes on after it, rested (I14)':
      'hang netlink; look; wait 15000; 1 line of error .; hooked; unhook; wait 20000; hooked',
  });

  test('a stranger that was faster than our write is no failure: the agent looks again', async () => {
    const { clock, kernel, ...host } = await play('mark');
    const writes = kernel.applied.length;
    kernel.run('ipv4', 'nft', '*nat\n-I PREROUTING -j ACCEPT\nCOMMIT\n');
    kernel.faults.beforeApply(() => {
      kernel.run('ipv4', 'nft', '*nat\n-F PREROUTING\nCOMMIT\n');
    });
    await clock.advance(200);
    expect(kernel.show('ipv4', 'nft')).toMatch(/-A PREROUTING .*-j VIPNAT\n/);
    expect([kernel.applied.length - writes, linesOf(host.running, 'error')]).toEqual([2, []]);
  });
});

describe('an agent that is stopped', () => {
  testAgent({
    'ends the write under way first, and leaves the rules (I8)':
      'before; proxy m1 m2 m3; hang iptables-nft-restore; start; wait 1000; stopping; wait 5000; not over; wait 5000;' +
      'over; idle',
    'keeps silent and idle afterwards': 'stop; mark; unhook; wait 120000; unhooked; no line; writes 0; idle',
  });
});

const threeTexts = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'];
const two = threeTexts.slice(0, 2);

describe('kube-proxy in nftables mode', () => {
  test.each([
    ['nft-kube-proxy.three-endpoints.json', threeTexts],
    ['nft-kube-proxy.two-endpoints.json', two],
    ['nft-kube-proxy.client-ip-affinity.json', threeTexts],
  ])('%s: its chains cannot be joined, so a table of our own sends the VIP on', async (name, apiservers) => {
    const kernel = restoreCaptures([name]);
    const assessment = await lookOnce(kernel, ordinaryConfig);
    expect(decisionOf(assessment)).toMatchObject({ mode: 'direct', isBypass: false, backends: apiservers });
    await applyPlan(kernel, assessment.plan);
    const chosen = [...kernel.showNft('ipv4').matchAll(/ dnat to (\S+) /g)].map(([, text]) => text);
    expect([...new Set(chosen)]).toEqual(apiservers);
    expect(kernel.show('ipv4', 'nft')).toBe('');
  });

  test('a new agent learns the apiservers from the table of the one before (I4)', async () => {
    const kernel = restoreCaptures(['nft-kube-proxy.three-endpoints.json']);
    await applyPlan(kernel, (await lookOnce(kernel, ordinaryConfig)).plan);
    kernel.setNftProxy('ipv4', null);
    const fresh = await lookOnce(kernel, { ...ordinaryConfig, iptables: 'none' });
    expect(decisionOf(fresh)).toMatchObject({ mode: 'direct', backends: threeTexts });
    expect(fresh.plan.transactions).toEqual([]);
  });

  test('where iptables drops what is forwarded, iptables is told to let it through', async () => {
    const kernel = restoreCaptures(['nft-kube-proxy.three-endpoints.json']);
    kernel.run('ipv4', 'legacy', '*filter\n:FORWARD DROP [0:0]\nCOMMIT\n');
    kernel.run('ipv4', 'nft', '*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n');
    await applyPlan(kernel, (await lookOnce(kernel, ordinaryConfig)).plan);
    expect(kernel.show('ipv4', 'legacy')).toMatch(/-A FORWARD .*-j VIPNAT-FORWARD\n/);
    expect(kernel.show('ipv4', 'legacy')).not.toContain('*nat');
    expect(kernel.show('ipv4', 'nft')).not.toContain('VIPNAT');
    kernel.run('ipv4', 'legacy', '*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n');
    await applyPlan(kernel, (await lookOnce(kernel, ordinaryConfig)).plan);
    expect(kernel.show('ipv4', 'legacy')).not.toContain('VIPNAT');
  });
});

test('a host without iptables gets a table of our own', async () => {
  const kernel = restoreCaptures([]);
  kernel.hasIptables = false;
  const config = { ...ordinaryConfig, endpoints: threeTexts.map(toEndpoint) };
  const assessment = await lookOnce(kernel, config);
  expect(assessment.observation.dialect).toEqual({ value: 'nftables', seenIn: 'no iptables is installed' });
  await applyPlan(kernel, assessment.plan);
  expect((await lookOnce(kernel, config)).plan.transactions).toEqual([]);
});

describe('a host whose iptables cannot show a table, as it holds a rule of nft', () => {
  const config = { ...ordinaryConfig, endpoints: threeTexts.map(toEndpoint) };

  test.each(['nat', 'filter'])('gets a table of our own, and iptables again if it can: %s', async (table) => {
    const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt']);
    kernel.run('ipv4', 'nft', '*filter\n:FORWARD DROP [0:0]\nCOMMIT\n');
    const look = () => lookOnce(kernel, config, { answer: 'iptables' });
    await applyPlan(kernel, (await look()).plan);
    kernel.faults.spoilTable('iptables-nft-save', table, 'incompatible');
    kernel.forwardChains = [{ table: 'ip filter', name: 'FORWARD', isDropping: true }];

    const spoilt = await look();
    expect(spoilt.observation.dialect).toEqual({
      value: 'nftables',
      seenIn: `iptables-nft cannot show the table ${table}`,
    });
    expect(decisionOf(spoilt)).toMatchObject({ mode: 'direct', backends: threeTexts });
    await applyPlan(kernel, spoilt.plan);
    expect(kernel.showNft('ipv4')).toContain('hook prerouting priority -105');
    // What cannot be read stays as it is; what can be, and is not needed, goes. FORWARD drops.
    expect(kernel.show('ipv4', 'nft').includes(' -j VIPNAT\n')).toBe(table === 'nat');
    expect(kernel.show('ipv4', 'nft')).toContain(' -j VIPNAT-FORWARD\n');
    expect((await look()).plan.transactions).toEqual([]);

    kernel.faults.spoilTable('iptables-nft-save', '');
    const healed = await look();
    expect(healed.plan.transactions.map(({ dialect }) => dialect)).toEqual(['nft', 'nftables']);
    await applyPlan(kernel, healed.plan);
    expect([kernel.showNft('ipv4'), (await look()).plan.transactions]).toEqual(['', []]);
  });

  test('balances nothing where that table drops what passes, and has no rule of ours yet that lets it pass', async () => {
    const kernel = restoreCaptures([]);
    kernel.faults.spoilTable('iptables-nft-save', 'filter', 'incompatible');
    const bringChain = (isDropping: boolean) => {
      kernel.forwardChains = [{ table: 'ip filter', name: 'FORWARD', isDropping }];
      return lookOnce(kernel, config);
    };
    await expect(bringChain(true)).rejects.toMatchObject({
      code: 'TABLE_INCOMPATIBLE',
      message: expect.stringContaining('nft insert rule ip filter FORWARD ct status dnat accept'),
    });
    expect((await bringChain(false)).observation.dialect.value).toBe('nftables');
  });

  test('is not written to where --iptables names it, and the error names the way out', async () => {
    const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt']);
    kernel.faults.spoilTable('iptables-nft-save', 'nat', 'incompatible');
    await expect(lookOnce(kernel, { ...config, iptables: 'nft' })).rejects.toMatchObject({
      code: 'TABLE_INCOMPATIBLE',
      message: expect.stringContaining('--iptables none'),
    });
  });
});
