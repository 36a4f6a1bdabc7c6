import { testAgent, forEach, play } from './timeline.ts';
import { listTexts, Host, toText, flowTo } from './host.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { test, expect, describe } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { ordinaryConfig, type AgentWorld } from '../../support/agent/running-agent.ts';
import { isLong } from '../../support/jest/extent.ts';
import type { Behaviour } from '../../support/fakes/apiserver.ts';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Monitored, local, second, third } from './health/monitored.ts';
import { FakeClock } from '../../support/fakes/clock.ts';

const sick = ['silent', 'failing', 'ailing', 'frozen', 'refusing'] as const;
const restart = (end: string) => `${end}; start; only m1 m2 for 1500;`;

testAgent({
  ...forEach(
    sick.flatMap((behaviour) => ['stop', 'kill'].map((end) => [behaviour, end] as const)),
    ([behaviour, end]) => [
      `while one apiserver is ${behaviour}, an agent that starts again after a ${end} keeps it out, and writes nothing`,
      `m3 ${behaviour}; wait 30000; targets m1 m2; mark; ${restart(end).repeat(3)} only m1 m2 for 18500;` +
        'writes 0; m3 healthy; wait 20000; targets proxy',
    ],
  ),
  ...forEach(sick, (behaviour) => [
    `while one apiserver is ${behaviour}, an agent that knows the apiservers from its state file alone keeps it out`,
    `stop; clear; start; wait 5000; m3 ${behaviour}; wait 30000; targets m1 m2; kill; start; only m1 m2 for 20000`,
  ]),
  'an agent that starts again while all apiservers refuse keeps all, and follows kube-proxy no sooner than they are back':
    'm1 m2 m3 refusing; wait 10000; targets m1 m2 m3; kill; start; only m1 m2 m3 for 10000;' +
    'm1 m2 m3 healthy; wait 20000; targets proxy',
  'an agent that starts again stays with the only one that lived, and leaves it when that one dies':
    'm2 refusing; m3 silent; wait 10000; targets m1; kill; m1 refusing; m2 healthy; start; wait 1000; targets m2',
  'one that served in place of those who are listed goes on serving when the agent starts again':
    'm1 m2 refusing; wait 5000; proxy m3; wait 2000; m3 frozen; m1 healthy; wait 30000; targets m1; mark;' +
    'kill; start; only m1 for 20000; writes 0',
  'an apiserver that the rules leave out and that is well is back within seconds':
    'm3 refusing; wait 5000; targets m1 m2; kill; m3 healthy; start; wait 5000; targets proxy',
});

testAgent(
  {
    'without kube-proxy one that is out stays out, whatever else lists it':
      'before; start; wait 5000; m3 frozen; wait 20000; targets m1 m2; mark; stop; start; only m1 m2 for 20000; writes 0',
  },
  { config: { endpoints: listTexts('m1 m2 m3').map(toEndpoint) } },
);

test('it is said of one that the rules leave out why it gets no connections yet', async () => {
  const { running } = await play('m3 frozen; wait 30000; kill; start; wait 1000');
  expect(running.agent.health.get('10.77.0.13:6443')).toMatchObject({
    state: 'warming',
    reason: 'the rules from before this start do not use it, and it has not been ready since',
  });
});

test('rules that somebody has edited say nothing: everybody is trusted, as at any start', async () => {
  const host = await play('m3 frozen; wait 30000; kill');
  const [, chain = ''] = /^-A (VIPNAT-[0-9a-f]{10}) /m.exec(host.kernel.show('ipv4', 'nft')) ?? [];
  host.kernel.run('ipv4', 'nft', `*nat\n-I ${chain} -p udp -j RETURN\nCOMMIT\n`);
  await host.start();
  await host.clock.advance(1000);
  expect(host.targets).toBe('proxy');
});

const virtualServers = readFileSync(
  'test/support/fixtures/captures/proc-net-ip_vs.three-endpoints.txt',
  'utf8',
);
const beginning = {
  config: { proxyMode: 'ipvs', endpoints: listTexts('m1 m2 m3').map(toEndpoint) },
  prepare: ({ kernel }: Host) => {
    kernel.setIpvs(virtualServers);
  },
} as const;

testAgent(
  {
    'an agent that starts again beside kube-proxy in ipvs mode takes the virtual server for no apiserver, and writes nothing':
      'before; start; wait 5000; targets 10.96.0.1:443; mark; stop; start; wait 200; health m1 ready, m2 ready, m3 ready;' +
      'wait 10000; writes 0',
  },
  beginning,
);

test('one that starts while the virtual server is gone takes it for no apiserver any more once it is back, whatever mode kube-proxy is in', async () => {
  const host = await play('before; start; wait 5000; stop', beginning);
  host.kernel.setIpvs('');
  host.store.saves.splice(0);
  host.config = ordinaryConfig;
  await host.start();
  await host.clock.advance(200);
  expect(host.health).toBe('10.96.0.1:443 ready');
  host.kernel.setIpvs(virtualServers);
  host.kernel.trigger('ipvs');
  await host.clock.advance(60_000);
  expect([host.health, host.targets]).toEqual(['', '']);
});

const hourMs = 3_600_000;

/** What piles up does so in every hour. */
const hours = isLong ? 24 : 2;

/** Some two million timers in a day, on a machine that may be busy. */
const limitMs = 240_000;

/** What may come to an apiserver, and for how long, in turn: short and long enough to cross every threshold in judge.ts. */
const troubles: readonly Behaviour[] = ['silent', 'refusing', 'failing', 'frozen', 'slow', 'unreachable'];
const durationsMs = [200, 700, 3000, 11_000, 90_000];

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Everything that could pile up. */
function measure({ clock, apiservers, monitor }: Monitored): Record<string, number> {
  collectGarbage();
  const ejections = monitor.all.reduce((sum, one) => sum + one.ejections.length, 0);
  return {
    ...{ heap: process.memoryUsage().heapUsed, timers: clock.pending, ejections },
    sockets: apiservers.open + apiservers.openForPings,
  };
}

test(
  `${hours} hours of troubles leave no socket, timer or memory behind, and all ends well`,
  async () => {
    const world = await Monitored.start([local, second, third], new FakeClock(undefined, 1));
    const pass = async (untilMs: number) => {
      for (let trouble = 0; world.clock.now() < untilMs; trouble += 1) {
        const endpoint = [local, second, third][Math.floor(trouble / troubles.length) % 3] ?? local;
        world.apiservers.set(endpoint, troubles[trouble % troubles.length] ?? 'silent');
        await world.clock.advance(durationsMs[trouble % durationsMs.length] ?? 1000);
        world.apiservers.set(endpoint, 'healthy');
        await world.clock.advance(120_000);
        // What was told is of no interest here, and would pile up.
        world.changes.splice(0);
        world.sent.clear();
      }
    };
    await pass(hourMs);
    const before = measure(world);
    await pass(hours * hourMs);
    const after = measure(world);
    expect(world.states).toEqual(['ready', 'ready', 'ready']);
    expect(world.apiservers.connects).toBeGreaterThan(hours * 3600 * 4 * 2);
    // A connect, a question and a ping for each, and what is under way.
    expect(after['timers']).toBeLessThanOrEqual(9);
    // One for questions and one for pings.
    expect(after['sockets']).toBeLessThanOrEqual(6);
    expect(after['ejections']).toBeLessThanOrEqual(12);
    expect((after['heap'] ?? 0) - (before['heap'] ?? 0)).toBeLessThan(3_000_000);
  },
  limitMs,
);

const pollMs = 1000;

/** An agent on the first of three masters, the third of which is dead. */
async function startWithDeadOne(world: AgentWorld = {}): Promise<Host> {
  const host = new Host();
  host.kernel.addAddress({ family: 'ipv4', address: '10.77.0.11', device: 'eth0' });
  host.proxy(listTexts('m1 m2 m3'));
  await host.start(world);
  await host.clock.advance(2000);
  host.set(toText('m3'), 'refusing');
  await host.clock.advance(120_000);
  expect(host.targets).toBe('m1 m2');
  return host;
}

/** All that an agent has done in the world. */
function listDeeds({ kernel, running }: Host): unknown {
  const { logger, trackFile, store, apiservers, events } = running;
  return {
    writes: kernel.applied.length,
    lines: logger.lines.map(({ message }) => message),
    told: [...trackFile.values],
    saves: store.attempts,
    connects: apiservers.connects,
    forwarding: kernel.forwarding,
    events: [...events.recorded],
  };
}

/** The agent is told to stop in the middle of a look that takes a second, and does nothing from then on. */
async function stopDuringLook(host: Host): Promise<void> {
  const { clock, kernel } = host;
  kernel.trigger('nft-generation');
  // Triggers are heard after 50 ms, and a burst is over after 20.
  await clock.advance(70 + pollMs / 2);
  const before = listDeeds(host);
  let isStopped = false;
  const stopping = host.running.agent.stop().then(() => (isStopped = true));
  await clock.advance(0);
  expect(isStopped).toBe(false);
  await clock.advance(60_000);
  await stopping;
  expect(listDeeds(host)).toEqual(before);
  expect(clock.pending).toBe(0);
}

describe('an agent that is stopped during a look lets no dead apiserver in (I8)', () => {
  test.each(['netlink', 'iptables-nft-save', 'nft'])('while %s is slow', async (tool) => {
    const host = await startWithDeadOne();
    host.kernel.faults.delayNext(tool, pollMs);
    await stopDuringLook(host);
    expect(host.targets).toBe('m1 m2');
  });

  test('while kube-proxy is slow to answer', async () => {
    const host = await startWithDeadOne({ answerMs: pollMs });
    await stopDuringLook(host);
    expect(host.targets).toBe('m1 m2');
  });

  test('while a forwarding switch is slow that cannot be set', async () => {
    const host = await startWithDeadOne();
    const { clock, kernel } = host;
    kernel.forwarding = { ipv4: false, ipv6: true };
    for (let time = 0; time < 20; time += 1)
      kernel.faults.failNext({ tool: 'sysctl', code: 'SYSCTL_NOT_WRITTEN' });
    kernel.trigger('nft-generation');
    await clock.advance(60_000);
    kernel.run('ipv4', 'nft', '*nat\n-F PREROUTING\nCOMMIT\n');
    kernel.faults.delayNext('sysctl', pollMs);
    await stopDuringLook(host);
  });
});

describe('a look under way when the agent is stopped', () => {
  test('meets nobody new, saves nobody, and says nothing', async () => {
    const host = await startWithDeadOne();
    host.proxy(listTexts('m1 m2 m3 m4'));
    host.kernel.faults.delayNext('netlink', pollMs);
    await stopDuringLook(host);
    expect(host.running.agent.health.has(toText('m4'))).toBe(false);
  });

  test('says nothing of what fails in it: there is no next try', async () => {
    const host = await startWithDeadOne();
    host.kernel.faults.hangNext('netlink');
    await stopDuringLook(host);
  });

  test('does not send the VIP away', async () => {
    const host = await startWithDeadOne({ config: { ...ordinaryConfig, sysctls: 'check' } });
    host.set(toText('m1'), 'refusing');
    await host.clock.advance(5000);
    expect(host.running.trackFile.values).toEqual([0]);
    host.kernel.forwarding = { ipv4: false, ipv6: true };
    host.kernel.faults.delayNext('netlink', pollMs);
    await stopDuringLook(host);
  });
});

testAgent({
  'a death just before the end is answered by the write under way, and by none that follows':
    'delay next iptables-nft-restore 1000; mark; m3 refusing; wait 100; stopping; wait 60000; over; idle; targets m1 m2; writes 1',
});

const unheard = 'before; proxy m1 m2 m3; m1 m2 m3 silent; start; wait 50000; told last 1;';

testAgent(
  {
    'an agent that is stopped on a node that hears nobody tells keepalived before its time is up, while a tool hangs': `${unheard} hang netlink; look; wait 100; stopping; wait 1000; told last 0; wait 10000; over; told last 0`,
    'the same while connections are counted, and it counts those of no further virtual IP': `${unheard} delay connections 8000; wait 16000; stopping; wait 1000; told last 0; not over; wait 7000; over`,
  },
  {
    config: { vips: [50, 51, 52].map((host) => toEndpoint(`10.0.0.${host}:6443`)) },
    prepare: ({ kernel }) => {
      kernel.trackFlow(flowTo(toText('m4')));
    },
  },
);
