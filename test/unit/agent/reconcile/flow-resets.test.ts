import { describe, expect, test } from '@jest/globals';
import { type FlowSelection } from '../../../../lib/kernel/port.ts';
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

const [one, two, three] = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'] as const;
const vip = toEndpoint('10.0.0.50:6443');
const otherVip = toEndpoint('10.0.0.51:6443');

/** A kernel that knows how often it is to forget connections, and how many of these calls are under way. */
class WatchedKernel extends FakeKernel {
  calls = 0;
  most = 0;
  #underWay = 0;

  override async resetFlows(selection: FlowSelection): Promise<number> {
    this.calls += 1;
    this.#underWay += 1;
    this.most = Math.max(this.most, this.#underWay);
    try {
      return await super.resetFlows(selection);
    } finally {
      this.#underWay -= 1;
    }
  }
}

/** An agent in sync over three apiservers, on a kernel that is watched. */
async function startInSync(vips = [vip]): Promise<RunningAgent & { readonly kernel: WatchedKernel }> {
  const clock = new FakeClock();
  const kernel = new WatchedKernel(clock);
  syncKubeProxy(kernel, { family: 'ipv4', dialect: 'nft' }, [one, two, three].map(toEndpoint));
  const agent = startAgent({ clock, kernel, config: { ...ordinaryConfig, vips } });
  await clock.advance(5000);
  return { ...agent, kernel };
}

function listTargets(kernel: FakeKernel): string[] {
  return [...kernel.show('ipv4', 'nft').matchAll(/^-A VIPNAT-[0-9a-f]{10} .*--to-destination (\S+)/gm)].map(
    ([, target = '']) => target,
  );
}

const isComplete = ({ isHalfOpen }: FlowSelection) => !isHalfOpen;

/** More than any test waits. */
function failOften(kernel: FakeKernel): void {
  for (let time = 0; time < 500; time += 1)
    kernel.faults.failNext({ tool: 'connections', code: 'NETLINK_FAILED' });
}

describe('a reset that fails', () => {
  test.each([1, 5])('%i times is tried again until it is done, and then no more', async (times) => {
    const { clock, kernel, apiservers } = await startInSync();
    apiservers.set(three, 'silent');
    await clock.advance(800);
    const flow = { vip, backend: toEndpoint(three), isHalfOpen: false };
    kernel.trackFlow(flow);
    for (let time = 0; time < times; time += 1) {
      kernel.faults.failNext({ tool: 'connections', code: 'NETLINK_FAILED' });
    }
    await clock.advance(20_000);
    expect(await kernel.countFlows(vip)).toEqual(new Map());
    expect(kernel.resets.filter(isComplete)).toHaveLength(1);
  });

  test('is given up when the apiserver is back', async () => {
    const { clock, kernel, apiservers } = await startInSync();
    failOften(kernel);
    apiservers.set(three, 'silent');
    await clock.advance(5000);
    apiservers.set(three, 'healthy');
    await clock.advance(100);
    const { calls } = kernel;
    expect(calls).toBeGreaterThan(3);
    await clock.advance(120_000);
    expect(kernel.calls).toBe(calls);
  });

  test('that the kernel refuses for long is said once, and tried twice a minute at most', async () => {
    const agent = await startInSync();
    const { clock, kernel, apiservers } = agent;
    failOften(kernel);
    apiservers.set(three, 'silent');
    await clock.advance(60_000);
    const { calls } = kernel;
    await clock.advance(600_000);
    expect(kernel.calls - calls).toBeLessThanOrEqual(20);
    expect(linesOf(agent, 'warn').filter((line) => line.includes('Stale connections last'))).toHaveLength(1);
  });
});

describe('a reset that takes 3 s', () => {
  test('holds up nothing: the next apiserver that refuses is out as fast as ever', async () => {
    const { clock, kernel, apiservers } = await startInSync();
    kernel.faults.delayEvery('connections', 3000);
    apiservers.set(three, 'silent');
    await clock.advance(1000);
    expect(listTargets(kernel)).toEqual([one, two]);
    apiservers.set(two, 'refusing');
    await clock.advance(20);
    expect(listTargets(kernel)).toEqual([one]);
  });

  test('is the only one at that time, however many are due', async () => {
    const { clock, kernel, apiservers } = await startInSync([vip, otherVip]);
    kernel.faults.delayEvery('connections', 3000);
    apiservers.set(two, 'silent');
    apiservers.set(three, 'silent');
    // The connections of one half of them wait for half a minute.
    await clock.advance(45_000);
    expect(kernel.most).toBe(1);
    expect(
      new Set(kernel.resets.filter(isComplete).map((flow) => `${flow.vip.address} ${flow.backend.address}`)),
    ).toEqual(
      new Set(
        ['10.77.0.12', '10.77.0.13'].flatMap((backend) => [`10.0.0.50 ${backend}`, `10.0.0.51 ${backend}`]),
      ),
    );
  });

  test('of a death that was over and came again meanwhile leaves the second one its own', async () => {
    const { clock, kernel, apiservers } = await startInSync();
    apiservers.set(three, 'silent');
    await clock.advance(900);
    kernel.faults.delayNext('connections', 8000);
    await clock.advance(5000);
    apiservers.set(three, 'healthy');
    await clock.advance(5000);
    apiservers.set(three, 'silent');
    await clock.advance(20_000);
    expect(kernel.resets.filter(isComplete)).toHaveLength(2);
  });
});

describe('an agent that is stopped', () => {
  test('waits for the reset under way, and begins no other', async () => {
    const { clock, kernel, apiservers, agent } = await startInSync([vip, otherVip]);
    kernel.faults.delayEvery('connections', 3000);
    apiservers.set(three, 'silent');
    await clock.advance(1000);
    let isStopped = false;
    const stopping = agent.stop().then(() => (isStopped = true));
    await clock.advance(1000);
    expect(isStopped).toBe(false);
    await clock.advance(3000);
    await stopping;
    const { calls } = kernel;
    await clock.advance(60_000);
    expect(kernel.calls).toBe(calls);
    expect(clock.pending).toBe(0);
  });

  test('leaves no try that is still to come', async () => {
    const { clock, kernel, apiservers, agent } = await startInSync();
    failOften(kernel);
    apiservers.set(three, 'silent');
    await clock.advance(3000);
    await agent.stop();
    // The probes under way give up first.
    await clock.advance(10_000);
    expect(clock.pending).toBe(0);
  });
});
