import { vip, flowTo, toText, type Host } from './host.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { describe, test, expect } from '@jest/globals';
import { play, testAgent, forEach } from './timeline.ts';
import { formatEndpoint } from '../../../lib/net.ts';

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
    expect(host.lines('warn').filter((line) => line.includes('Stale connections last'))).toHaveLength(1);
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
      ...['10.0.0.50 10.77.0.12', '10.0.0.50 10.77.0.13', '10.0.0.51 10.77.0.12', '10.0.0.51 10.77.0.13'],
    ]);
  });
});

const minuteMs = 60_000;

/** The kernel knows a connection to the third. */
const open = {
  prepare: ({ kernel }: Host) => {
    kernel.trackFlow(flowTo(toText('m3')));
  },
};

/** It was never listed as far as this agent knows. */
const unlisted = 'before; proxy m1 m2; m3 has a connection;';

describe('connections to an apiserver that is listed no more', () => {
  testAgent(
    {
      'are reset when its host dies: frozen, then draining, then dropped from the list':
        'm3 frozen; wait 12000; proxy m1 m2; wait 600000; resets none; m3 silent; wait 6000; resets m3 half-open, m3 all;' +
        '1 line of info ^vipnat reset 1 stale connection of 10.0.0.50:6443 to 10.77.0.13:6443$',
      // Between the two its host still lives, and answers for connections that are gone.
      'are reset when it is terminated, leaves the list, and its host is powered off within its drain':
        'm3 failing; wait 2000; proxy m1 m2; wait 3000; m3 refusing; wait 20000; resets none;' +
        'm3 silent; wait 6000; resets m3 half-open, m3 all',
      ...forEach(['refusing', 'clogged', 'frozen'], (behaviour) => [
        `are left alone where it is only ${behaviour}`,
        `proxy m1 m2; wait 3000; m3 ${behaviour}; wait 300000; resets ${behaviour === 'clogged' ? 'm3 half-open' : 'none'}`,
      ]),
      'are left alone where no other host is heard either: that is this side':
        'proxy m1 m2; wait 60000; m1 m2 m3 silent; wait 60000; resets none',
    },
    open,
  );

  testAgent({
    'are reset by an agent that was started after it had left': `${unlisted} start; wait 65000; m3 silent; wait 6000; resets m3 half-open, m3 all`,
    'are reset by an agent that was started after its host had died': `${unlisted} m3 silent; start; wait 25000; resets m3 half-open, m3 all`,
  });
});

describe('an apiserver that is listed no more', () => {
  testAgent(
    {
      'is probed until it has no connections':
        'proxy m1 m2; wait 600000; m3 probed; m3 has none; wait 60000; m3 unprobed',
      'is told when it is found, and not again':
        'proxy m1 m2; wait 600000; 1 line of info is no longer listed;' +
        '1 line of info 13:6443 is no longer listed, but has 1 open connection. vipnat probes it until it ends$',
      'has to warm up when it is listed again':
        'proxy m1 m2; wait 60000; proxy m1 m2 m3; wait 100; m3 is warming; wait 5000; m3 is ready',
    },
    open,
  );

  testAgent({
    'and has no connections is not probed a minute later, and nothing is counted any more':
      'wait 600000; counted 1; proxy m1 m2; wait 63000; m3 unprobed; wait 600000; counted 2',
    'is no witness: what it answers takes nobody out of use': `${unlisted} start; wait 60000; m3 probed;${[
      'ailing',
      'failing',
      'frozen',
    ]
      .map((behaviour) => `m1 m2 ${behaviour}; wait 60000; m1 is ready; m2 is ready;`)
      .join('')}`,
  });

  // One that was named before is in reserve, and may serve for that reason: these were not.
  test('gets no new connections, however well it does', async () => {
    const host = await play(`${unlisted} start; wait 60000`);
    for (const behaviour of ['refusing', 'failing', 'frozen', 'silent'] as const) {
      for (const name of ['m1', 'm2']) host.set(toText(name), behaviour);
      await host.clock.advance(20_000);
      expect(host.health).not.toContain('m3');
      expect(host.kernel.show('ipv4', 'nft')).not.toContain('10.77.0.13');
      for (const name of ['m1', 'm2']) host.set(toText(name), 'healthy');
      await host.clock.advance(minuteMs);
    }
    expect(await host.isProbed(toText('m3'))).toBe(true);
  });
});

describe('connections are counted', () => {
  test('of each virtual IP, of both families', async () => {
    const flows = [
      { vip: toEndpoint('10.0.0.51:6443'), backend: toEndpoint(toText('m3')), isHalfOpen: false },
      { vip: toEndpoint('[fd77::50]:6443'), backend: toEndpoint('[fd77::13]:6443'), isHalfOpen: false },
    ];
    const host = await play('before; proxy m1 m2; start; wait 0', {
      config: { vips: [vip, ...flows.map((flow) => flow.vip)] },
      prepare: ({ kernel }) => {
        flows.forEach((flow) => {
          kernel.trackFlow(flow);
        });
      },
    });
    await host.clock.advance(2 * minuteMs);
    for (const { backend } of flows) host.set(formatEndpoint(backend), 'silent');
    await host.clock.advance(6000);
    expect(host.kernel.resets).toEqual(expect.arrayContaining(flows));
  });

  test('once a minute at most, however often the list changes', async () => {
    const { kernel } = await play('proxy m1 m2; wait 3000; proxy m1 m2 m3; wait 3000;'.repeat(30), open);
    // Three minutes.
    expect(kernel.counts).toBeLessThanOrEqual(1 + 3);
    expect(kernel.counts).toBeGreaterThan(1);
  });

  test('and of a hundred that once were apiservers the eight with the most are probed', async () => {
    const others = Array.from({ length: 100 }, (_, index) => `10.77.1.${index + 1}:6443`);
    const { clock, sent } = await play(`wait ${minuteMs}`, {
      prepare: ({ kernel }) => {
        others.forEach((other, index) => {
          for (let count = 0; count <= index; count += 1) kernel.trackFlow(flowTo(other));
        });
      },
    });
    sent.clear();
    await clock.advance(minuteMs);
    expect(others.filter((other) => sent.to(other).connects.length > 0)).toEqual(others.slice(-8));
  });

  test('and what the virtual IPs and this host itself answer is nobody’s departure', async () => {
    const nobody = ['10.0.0.50:6443', '10.0.0.51:6443'];
    const { clock, sent } = await play('proxy m1 m2; wait 123000', {
      prepare: ({ kernel }) => {
        for (const text of [...nobody, '10.0.0.52:6443']) kernel.trackFlow(flowTo(text));
        kernel.addAddress({ family: 'ipv4', address: '10.0.0.51', device: 'eth0' });
      },
    });
    sent.clear();
    await clock.advance(minuteMs);
    const asked = [...nobody, '10.0.0.52:6443'].filter((text) => sent.to(text).connects.length > 0);
    expect(asked).toEqual(['10.0.0.52:6443']);
  });

  testAgent({
    'and where they cannot be, one that left is probed for a quarter of an hour, and so is each that leaves later':
      'fail connections 100 times; proxy m1 m2; wait 600000; m3 probed; wait 600000; m3 unprobed;' +
      'proxy m1 m2 m3; wait 1200000; proxy m1 m2; wait 600000; m3 probed; wait 600000; m3 unprobed',
  });
});

describe('an agent that is stopped', () => {
  test('waits for the reset under way, and begins no other', async () => {
    const stopping =
      'delay connections 3000; m3 silent; wait 1000; stopping; wait 1000; not over; wait 3000; over';
    const { clock, kernel } = await play(stopping, both);
    const { resetCalls } = kernel;
    await clock.advance(60_000);
    expect([kernel.resetCalls, clock.pending]).toEqual([resetCalls, 0]);
  });

  testAgent({
    // The probes under way give up first.
    'leaves no try that is still to come': `${failOften} m3 silent; wait 3000; stop; wait 10000; idle`,
  });

  testAgent(
    {
      'counts and probes no more':
        'proxy m1 m2; wait 3000; counted 1; stop; wait 600000; counted 1; idle; m3 unprobed',
    },
    open,
  );
});
