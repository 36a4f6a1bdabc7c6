import { type Host, flowTo, toText, vip } from './host.ts';
import { play } from './timeline.ts';
import { describe, test, expect } from '@jest/globals';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { weighByCounts, fitWeights } from '../../../agent/weights.ts';

/** What part of new connections each apiserver gets, in percent. */
function readShares({ kernel }: Host): string {
  let left = 1;
  const rules = kernel.show('ipv4', 'nft').matchAll(/^-A VIPNAT-[0-9a-f]{10} (.*)--to-destination/gm);
  const shares = [...rules].map(([, text = '']) => {
    const share = left * Number(/--probability (\S+)/.exec(text)?.[1] ?? 1);
    left -= share;
    return Math.round(share * 100);
  });
  return shares.join(' ');
}

function addFlows({ kernel }: Host, name: string, count: number): void {
  for (let flow = 0; flow < count; flow += 1) kernel.trackFlow(flowTo(toText(name)));
}

/** An agent with a method on a host that holds the VIP; the kernel knows 150 connections to each of some apiservers. */
const playWith = (names: readonly string[], config: object = { method: 'lc' }) =>
  play('before; proxy m1 m2 m3; start; wait 10000', {
    config,
    prepare: (host) => {
      host.kernel.addAddress({ family: 'ipv4', address: vip.address, device: 'eth0' });
      for (const name of names) addFlows(host, name, 150);
    },
  });

const [equal, unequal] = ['33 33 33', '22 20 58'];

describe('with the method lc', () => {
  test('an apiserver with fewer open connections gets more new ones, until it has as many', async () => {
    const host = await playWith(['m1', 'm2']);
    const { clock, running } = host;
    expect(readShares(host)).toBe(unequal);
    addFlows(host, 'm3', 140);
    await clock.advance(30_000);
    expect(readShares(host)).toBe(equal);
    const { writes } = running.agent.activity;
    await clock.advance(600_000);
    expect(running.agent.activity.writes).toBe(writes);
    expect(running.logger.lines.filter(({ level }) => level !== 'info')).toEqual([]);
  });

  test('what counts ask for is written every 10 s at most', async () => {
    const host = await playWith([]);
    await host.clock.advance(10_000);
    const { writes } = host.running.agent.activity;
    for (let round = 0; round < 21; round += 1) {
      addFlows(host, ['m1', 'm2', 'm3'][round % 3] ?? 'm1', 100 * 2 ** Math.floor(round / 4));
      await host.clock.advance(1000);
    }
    expect(host.running.agent.activity.writes - writes).toBeGreaterThan(0);
    expect(host.running.agent.activity.writes - writes).toBeLessThanOrEqual(4);
  });

  test('the next process goes on with the shares that rules have', async () => {
    const host = await playWith(['m1', 'm2']);
    await host.running.agent.stop();
    await host.start();
    await host.clock.advance(60_000);
    expect([readShares(host), host.running.agent.activity.writes]).toEqual([unequal, 0]);
  });

  test('a node that no longer holds the VIP counts nothing, and shares are equal', async () => {
    const host = await playWith(['m1']);
    expect(readShares(host)).not.toBe(equal);
    host.kernel.removeAddress(vip.address);
    await host.clock.advance(10_000);
    const { counts } = host.kernel;
    await host.clock.advance(60_000);
    expect([readShares(host), host.kernel.counts]).toEqual([equal, counts]);
  });

  test('where connections cannot be counted shares are equal, and that is said once', async () => {
    const host = await playWith(['m1']);
    expect(readShares(host)).not.toBe(equal);
    for (let time = 0; time < 5; time += 1)
      host.kernel.faults.failNext({ tool: 'connections', code: 'NETLINK_FAILED' });
    await host.clock.advance(20_000);
    expect(readShares(host)).toBe(equal);
    await host.clock.advance(60_000);
    expect(readShares(host)).not.toBe(equal);
    expect(host.lines('warn').filter((line) => line.includes('count'))).toHaveLength(1);
    const back = host.lines('info').filter((line) => line.includes('counts open connections again'));
    expect(back).toHaveLength(1);
  });
});

test.each([
  ['--probability', { mode: 'direct' }],
  ['--mode nth', { method: 'rr' }],
  ['-m cluster', { method: 'hash' }],
])('without it nothing is counted: rules have %s, also the next process', async (match, config) => {
  const host = await playWith(['m1'], config);
  expect(host.kernel.show('ipv4', 'nft')).toContain(match);
  // Once at the start, for apiservers that have left.
  const { counts } = host.kernel;
  await host.clock.advance(60_000);
  expect(host.kernel.counts).toBe(counts);
  await host.running.agent.stop();
  await host.start();
  await host.clock.advance(60_000);
  expect(host.running.agent.activity.writes).toBe(0);
});

const [one, two, three] = ['10.0.0.11:6443', '10.0.0.12:6443', '10.0.0.13:6443'] as const;
const backends = [one, two, three].map(toEndpoint);
const weigh = (counts: readonly number[], before: readonly number[] | null = null) => {
  const toMap = (values: readonly number[]) =>
    new Map([one, two, three].map((text, index) => [text, values[index] ?? 0]));
  const weights = weighByCounts(backends, toMap(counts), before === null ? null : toMap(before));
  return weights === null ? null : [...weights.values()];
};

test.each<[string, readonly number[], readonly number[] | null, readonly number[] | null]>([
  ['that are far fewer give one more, the others at least half', [150, 150, 0], null, [13, 12, 35]],
  ['that are the same everywhere ask for equal shares', [100, 100, 100], null, null],
  ['as chance makes them ask for equal shares', [90, 100, 125], null, null],
  ['that are few ask for equal shares', [0, 5, 10], null, null],
  ['that are none ask for equal shares', [0, 0, 0], null, null],
  ['that change little leave the weights', [150, 149, 2], [13, 12, 35], [13, 12, 35]],
  ['that differ by half make the weights milder', [120, 120, 60], [13, 12, 35], [17, 17, 26]],
  ['that differ by less than a third of what began it end them', [110, 110, 95], [13, 12, 35], null],
])('open connections %s', (_, counts, before, weights) => {
  expect(weigh(counts, before)).toEqual(weights);
});

test('counts of an apiserver that is not usable do not matter, and a single one needs no weights', () => {
  const counts = new Map([[one, 500]]);
  expect(weighByCounts(backends.slice(1), counts, null)).toBeNull();
  expect(weighByCounts(backends.slice(0, 1), counts, null)).toBeNull();
});

describe('weights where the apiservers have changed', () => {
  const weights = new Map([
    [one, 13],
    [two, 12],
    [three, 35],
  ]);

  test('keep their proportions, in units that can be read back', () => {
    const fitted = [...(fitWeights(weights, backends.slice(1)) ?? [])];
    expect(fitted.map(([text]) => text)).toEqual([two, three]);
    expect(fitted.reduce((sum, [, weight]) => sum + weight, 0)).toBe(40);
  });

  test('are none for a single one', () => {
    expect(fitWeights(weights, backends.slice(2))).toBeUndefined();
  });
});
