import { type AgentWorld, ordinaryConfig } from '../../support/agent/running-agent.ts';
import { Host, listTexts, toText, flowTo } from './host.ts';
import { expect, describe, test } from '@jest/globals';
import { testAgent, play } from './timeline.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';

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
    'delay next iptables-nft-restore 1000; mark; m3 refusing; wait 100; end within 60000; targets m1 m2; writes 1',
});

describe('an agent that is stopped on a node that hears nobody tells keepalived before its time is up', () => {
  const unheard = 'before; proxy m1 m2 m3; m1 m2 m3 silent; start; wait 50000; told last 1';
  const playUnheard = (hosts: readonly number[]) =>
    play(unheard, {
      config: { vips: hosts.map((host) => toEndpoint(`10.0.0.${host}:6443`)) },
      prepare: ({ kernel }) => {
        kernel.trackFlow(flowTo(toText('m4')));
      },
    });

  test('while a tool hangs', async () => {
    const { kernel, clock, running } = await playUnheard([50]);
    kernel.faults.hangNext('netlink');
    kernel.trigger('nft-generation');
    await clock.advance(100);
    const stopping = running.agent.stop();
    await clock.advance(1000);
    expect(running.trackFile.values.at(-1)).toBe(0);
    await clock.advance(10_000);
    await stopping;
    expect(running.trackFile.values.at(-1)).toBe(0);
  });

  test('while connections are counted, and counts those of no further virtual IP', async () => {
    const { kernel, clock, running } = await playUnheard([50, 51, 52]);
    kernel.faults.delayEvery('connections', 8000);
    await clock.advance(16_000);
    let isStopped = false;
    const stopping = running.agent.stop().then(() => (isStopped = true));
    await clock.advance(1000);
    expect([running.trackFile.values.at(-1), isStopped]).toEqual([0, false]);
    await clock.advance(7000);
    expect(isStopped).toBe(true);
    await stopping;
  });
});
