import { describe, expect, test } from '@jest/globals';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { type FakeKernel } from '../../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';
import { CountedKernel } from './departed-world.ts';
import { linesOf, ordinaryConfig, startAgent } from '../../../support/agent/running-agent.ts';

const [one, two, three] = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'] as const;
const vip = toEndpoint('10.0.0.50:6443');

function makeKernel(clock: FakeClock, isHere = true): CountedKernel {
  const kernel = new CountedKernel(clock);
  syncKubeProxy(kernel, { family: 'ipv4', dialect: 'nft' }, [one, two, three].map(toEndpoint));
  if (isHere) kernel.addAddress({ family: 'ipv4', address: vip.address, device: 'eth0' });
  return kernel;
}

function addFlows(kernel: FakeKernel, backend: string, count: number): void {
  for (let flow = 0; flow < count; flow += 1)
    kernel.trackFlow({ vip, backend: toEndpoint(backend), isHalfOpen: false });
}

const lc = { ...ordinaryConfig, method: 'lc' } as const;

/** What part of new connections each apiserver gets, in percent. */
function readShares(kernel: FakeKernel): Record<string, number> {
  let left = 1;
  const rules = kernel.show('ipv4', 'nft').matchAll(/^-A VIPNAT-[0-9a-f]{10} (.*)--to-destination (\S+)/gm);
  return Object.fromEntries(
    [...rules].map(([, text = '', backend = '']) => {
      const share = left * Number(/--probability (\S+)/.exec(text)?.[1] ?? 1);
      left -= share;
      return [backend, Math.round(share * 100)];
    }),
  );
}

const equal = { [one]: 33, [two]: 33, [three]: 33 };
const unequal = { [one]: 22, [two]: 20, [three]: 58 };

describe('with the method lc', () => {
  test('an apiserver with fewer open connections gets more new ones, until it has as many', async () => {
    const clock = new FakeClock();
    const kernel = makeKernel(clock);
    addFlows(kernel, one, 150);
    addFlows(kernel, two, 150);
    const { agent, logger } = startAgent({ clock, kernel, config: lc });
    await clock.advance(10_000);
    expect(readShares(kernel)).toEqual(unequal);
    addFlows(kernel, three, 140);
    await clock.advance(30_000);
    expect(readShares(kernel)).toEqual(equal);
    const { writes } = agent.activity;
    await clock.advance(600_000);
    expect(agent.activity.writes).toBe(writes);
    expect(logger.lines.filter(({ level }) => level !== 'info')).toEqual([]);
    await agent.stop();
  });

  test('what counts ask for is written every 10 s at most', async () => {
    const clock = new FakeClock();
    const kernel = makeKernel(clock);
    const { agent } = startAgent({ clock, kernel, config: lc });
    await clock.advance(20_000);
    const { writes } = agent.activity;
    for (let round = 0; round < 60; round += 1) {
      addFlows(kernel, [one, two, three][round % 3] ?? one, 100 * 2 ** Math.floor(round / 4));
      if (round > 20) break;
      await clock.advance(1000);
    }
    expect(agent.activity.writes - writes).toBeGreaterThan(0);
    expect(agent.activity.writes - writes).toBeLessThanOrEqual(4);
    await agent.stop();
  });

  test('the next process goes on with the shares that rules have', async () => {
    const clock = new FakeClock();
    const kernel = makeKernel(clock);
    addFlows(kernel, one, 150);
    addFlows(kernel, two, 150);
    const first = startAgent({ clock, kernel, config: lc });
    await clock.advance(10_000);
    await first.agent.stop();
    const { agent } = startAgent({ clock, kernel, config: lc });
    await clock.advance(60_000);
    expect(readShares(kernel)).toEqual(unequal);
    expect(agent.activity.writes).toBe(0);
    await agent.stop();
  });

  test('a node that no longer holds the VIP counts nothing, and shares are equal', async () => {
    const clock = new FakeClock();
    const kernel = makeKernel(clock);
    addFlows(kernel, one, 150);
    const { agent } = startAgent({ clock, kernel, config: lc });
    await clock.advance(10_000);
    expect(readShares(kernel)).not.toEqual(equal);
    kernel.removeAddress(vip.address);
    await clock.advance(10_000);
    const { counts } = kernel;
    await clock.advance(60_000);
    expect(readShares(kernel)).toEqual(equal);
    expect(kernel.counts).toBe(counts);
    await agent.stop();
  });

  test('where connections cannot be counted shares are equal, and that is said once', async () => {
    const clock = new FakeClock();
    const kernel = makeKernel(clock);
    addFlows(kernel, one, 150);
    const running = startAgent({ clock, kernel, config: lc });
    await clock.advance(10_000);
    expect(readShares(kernel)).not.toEqual(equal);
    for (let time = 0; time < 5; time += 1)
      kernel.faults.failNext({ tool: 'connections', code: 'NETLINK_FAILED' });
    await clock.advance(20_000);
    expect(readShares(kernel)).toEqual(equal);
    await clock.advance(60_000);
    expect(readShares(kernel)).not.toEqual(equal);
    const isOfCounts = (line: string) => line.includes('count');
    expect(linesOf(running, 'warn').filter(isOfCounts)).toHaveLength(1);
    expect(
      linesOf(running, 'info').filter((line) => line.includes('counts open connections again')),
    ).toHaveLength(1);
    await running.agent.stop();
  });
});

test('without it nothing is counted, whatever is open', async () => {
  const clock = new FakeClock();
  const kernel = makeKernel(clock);
  addFlows(kernel, one, 150);
  const { agent } = startAgent({ clock, kernel, config: { ...ordinaryConfig, mode: 'direct' } });
  await clock.advance(10_000);
  // Once at the start, for apiservers that have left.
  const { counts } = kernel;
  await clock.advance(60_000);
  expect(kernel.counts).toBe(counts);
  expect(readShares(kernel)).toEqual(equal);
  await agent.stop();
});
