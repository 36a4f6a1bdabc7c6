import { describe, expect, test } from '@jest/globals';
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
const [one, two, three, four] = [11, 12, 13, 14].map((host) => `10.77.0.${host}:6443`) as [
  string,
  string,
  string,
  string,
];
const lookMs = 1000;

/** An agent on the first of three masters, the third of which is dead. */
async function startWithDeadOne(world: Parameters<typeof startAgent>[0] = {}): Promise<RunningAgent> {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  kernel.addAddress({ family: 'ipv4', address: '10.77.0.11', device: 'eth0' });
  syncKubeProxy(kernel, nft, [one, two, three].map(toEndpoint));
  const agent = startAgent({ clock, kernel, ...world });
  await clock.advance(2000);
  agent.apiservers.set(three, 'refusing');
  await clock.advance(120_000);
  expect(listTargets(kernel)).toEqual([one, two]);
  return agent;
}

function listTargets(kernel: FakeKernel): string[] {
  return [...kernel.show('ipv4', 'nft').matchAll(/^-A VIPNAT-[0-9a-f]{10} .*--to-destination (\S+)/gm)].map(
    ([, target = '']) => target,
  );
}

/** All that an agent has done in the world. */
function listDeeds({ kernel, logger, trackFile, store, apiservers, events }: RunningAgent): unknown {
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

/** The agent is told to stop so long after the start of a look that takes a second; answers what it did from then on. */
async function stopDuringLook(agent: RunningAgent, afterMs = lookMs / 2): Promise<void> {
  const { clock, kernel } = agent;
  kernel.trigger('nft-generation');
  // Triggers are heard after 50 ms, and a burst is over after 20.
  await clock.advance(70 + afterMs);
  const before = listDeeds(agent);
  let isStopped = false;
  const stopping = agent.agent.stop().then(() => (isStopped = true));
  await clock.advance(0);
  expect(isStopped).toBe(false);
  await clock.advance(60_000);
  await stopping;
  expect(listDeeds(agent)).toEqual(before);
  expect(clock.pending).toBe(0);
}

describe('an agent that is stopped during a look lets no dead apiserver in (I8)', () => {
  test.each(['netlink', 'iptables-nft-save', 'nft'])('while %s is slow', async (tool) => {
    const agent = await startWithDeadOne();
    agent.kernel.faults.delayNext(tool, lookMs);
    await stopDuringLook(agent);
    expect(listTargets(agent.kernel)).toEqual([one, two]);
  });

  test('while kube-proxy is slow to answer', async () => {
    const agent = await startWithDeadOne({ answerMs: lookMs });
    await stopDuringLook(agent);
    expect(listTargets(agent.kernel)).toEqual([one, two]);
  });

  test('while a forwarding switch is slow that cannot be set', async () => {
    const agent = await startWithDeadOne();
    const { clock, kernel } = agent;
    kernel.forwarding = { ipv4: false, ipv6: true };
    for (let time = 0; time < 20; time += 1) {
      kernel.faults.failNext({ tool: 'sysctl', code: 'SYSCTL_NOT_WRITTEN' });
    }
    kernel.trigger('nft-generation');
    await clock.advance(60_000);
    kernel.run('ipv4', 'nft', '*nat\n-F PREROUTING\nCOMMIT\n');
    kernel.faults.delayNext('sysctl', lookMs);
    await stopDuringLook(agent);
  });
});

describe('a look under way when the agent is stopped', () => {
  test('meets nobody new, saves nobody, and says nothing', async () => {
    const agent = await startWithDeadOne();
    syncKubeProxy(agent.kernel, nft, [one, two, three, four].map(toEndpoint));
    agent.kernel.faults.delayNext('netlink', lookMs);
    await stopDuringLook(agent);
    expect(agent.agent.health.has(four)).toBe(false);
  });

  test('says nothing of what fails in it: there is no next try', async () => {
    const agent = await startWithDeadOne();
    agent.kernel.faults.hangNext('netlink');
    await stopDuringLook(agent);
    expect(linesOf(agent, 'error')).toEqual([]);
  });

  test('does not send the VIP away', async () => {
    const agent = await startWithDeadOne({ config: { ...ordinaryConfig, sysctls: 'check' } });
    agent.apiservers.set(one, 'refusing');
    await agent.clock.advance(5000);
    expect(agent.trackFile.values).toEqual([0]);
    agent.kernel.forwarding = { ipv4: false, ipv6: true };
    agent.kernel.faults.delayNext('netlink', lookMs);
    await stopDuringLook(agent);
    expect(agent.trackFile.values).toEqual([0]);
  });
});

test('a death just before the end is answered by the write under way, and by none that follows', async () => {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  syncKubeProxy(kernel, nft, [one, two, three].map(toEndpoint));
  const agent = startAgent({ clock, kernel });
  await clock.advance(5000);
  kernel.faults.delayNext('iptables-nft-restore', lookMs);
  agent.apiservers.set(three, 'refusing');
  await clock.advance(100);
  const stopping = agent.agent.stop();
  await clock.advance(60_000);
  await stopping;
  expect(listTargets(kernel)).toEqual([one, two]);
  expect(kernel.applied).toHaveLength(2);
  expect(clock.pending).toBe(0);
});

describe('an agent that is stopped on a node that hears nobody tells keepalived before its time is up', () => {
  async function startUnheard(vips = ordinaryConfig.vips): Promise<RunningAgent> {
    const clock = new FakeClock();
    const kernel = new FakeKernel(clock);
    syncKubeProxy(kernel, nft, [one, two, three].map(toEndpoint));
    kernel.trackFlow({ vip: toEndpoint('10.0.0.50:6443'), backend: toEndpoint(four), isHalfOpen: false });
    const agent = startAgent({ clock, kernel, config: { ...ordinaryConfig, vips } });
    for (const endpoint of [one, two, three]) agent.apiservers.set(endpoint, 'silent');
    await clock.advance(50_000);
    expect(agent.trackFile.values.at(-1)).toBe(1);
    return agent;
  }

  test('while a tool hangs', async () => {
    const { agent, kernel, clock, trackFile } = await startUnheard();
    kernel.faults.hangNext('netlink');
    kernel.trigger('nft-generation');
    await clock.advance(100);
    const stopping = agent.stop();
    await clock.advance(1000);
    expect(trackFile.values.at(-1)).toBe(0);
    await clock.advance(10_000);
    await stopping;
    expect(trackFile.values.at(-1)).toBe(0);
  });

  test('while connections are counted, and counts those of no further virtual IP', async () => {
    const vips = [50, 51, 52].map((host) => toEndpoint(`10.0.0.${host}:6443`));
    const { agent, kernel, clock, trackFile } = await startUnheard(vips);
    kernel.faults.delayEvery('connections', 8000);
    await clock.advance(16_000);
    let isStopped = false;
    const stopping = agent.stop().then(() => (isStopped = true));
    await clock.advance(1000);
    expect(trackFile.values.at(-1)).toBe(0);
    expect(isStopped).toBe(false);
    await clock.advance(7000);
    expect(isStopped).toBe(true);
    await stopping;
  });
});
