import { vip, flowTo, toText } from './host.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { describe, test, expect } from '@jest/globals';
import { play, testAgent } from './timeline.ts';

const both = { config: { vips: [vip, toEndpoint('10.0.0.51:6443')] } };

/** More than any test waits. */
const failOften = 'fail connections 500 times;';

describe('a reset that fails', () => {
  test.each([1, 5])('%i times is tried again until it is done, and then no more', async (times) => {
    const host = await play('m3 silent; wait 800; m3 has a connection');
    for (let time = 0; time < times; time += 1)
      host.kernel.faults.failNext({ tool: 'connections', code: 'NETLINK_FAILED' });
    await host.clock.advance(20_000);
    expect(await host.kernel.countFlows(vip)).toEqual(new Map());
    expect(host.kernel.resets.filter(({ isHalfOpen }) => !isHalfOpen)).toEqual([flowTo(toText('m3'))]);
  });

  test('is given up when the apiserver is back', async () => {
    const { kernel, clock } = await play(`${failOften} m3 silent; wait 5000; m3 healthy; wait 100`);
    const { resetCalls } = kernel;
    expect(resetCalls).toBeGreaterThan(3);
    await clock.advance(120_000);
    expect(kernel.resetCalls).toBe(resetCalls);
  });

  test('that the kernel refuses for long is said once, and tried twice a minute at most', async () => {
    const host = await play(`${failOften} m3 silent; wait 60000`);
    const { resetCalls } = host.kernel;
    await host.clock.advance(600_000);
    expect(host.kernel.resetCalls - resetCalls).toBeGreaterThan(9);
    expect(host.kernel.resetCalls - resetCalls).toBeLessThanOrEqual(20);
    expect(host.lines('warn').filter((line) => line.includes('Stale connections last'))).toHaveLength(1);
  });
});

describe('a reset that takes 3 s', () => {
  testAgent({
    'holds up nothing: the next apiserver that refuses is out as fast as ever':
      'delay connections 3000; m3 silent; wait 1000; targets m1 m2; m2 refusing; wait 20; targets m1',
    'of a death that was over and came again meanwhile leaves the second one its own':
      'm3 silent; wait 900; delay next connections 8000; wait 5000; m3 healthy; wait 5000; m3 silent; wait 20000;' +
      'resets m3 half-open, m3 all, m3 half-open, m3 all',
  });

  test('is the only one at that time, however many are due', async () => {
    // The connections of one half of them wait for half a minute.
    const { kernel } = await play('delay connections 3000; m2 m3 silent; wait 45000', both);
    expect(kernel.mostResets).toBe(1);
    const reset = kernel.resets.filter(({ isHalfOpen }) => !isHalfOpen);
    const pairs = reset.map((flow) => `${flow.vip.address} ${flow.backend.address}`);
    expect([...new Set(pairs)].sort()).toEqual([
      '10.0.0.50 10.77.0.12',
      '10.0.0.50 10.77.0.13',
      '10.0.0.51 10.77.0.12',
      '10.0.0.51 10.77.0.13',
    ]);
  });
});

describe('an agent that is stopped', () => {
  test('waits for the reset under way, and begins no other', async () => {
    const { clock, kernel, running } = await play('delay connections 3000; m3 silent; wait 1000', both);
    let isStopped = false;
    const stopping = running.agent.stop().then(() => (isStopped = true));
    await clock.advance(1000);
    expect(isStopped).toBe(false);
    await clock.advance(3000);
    await stopping;
    const { resetCalls } = kernel;
    await clock.advance(60_000);
    expect([kernel.resetCalls, clock.pending]).toEqual([resetCalls, 0]);
  });

  test('leaves no try that is still to come', async () => {
    // The probes under way give up first.
    const { clock } = await play(`${failOften} m3 silent; wait 3000; stop; wait 10000`);
    expect(clock.pending).toBe(0);
  });
});
