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
const three = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'].map(toEndpoint);

/** A host on which kube-proxy has three apiservers, and an agent in its first millisecond. */
function startOnHost(clock: FakeClock): RunningAgent {
  const kernel = new FakeKernel(clock);
  syncKubeProxy(kernel, nft, three);
  return startAgent({ clock, kernel });
}

async function startInSync(): Promise<RunningAgent> {
  const clock = new FakeClock();
  const agent = startOnHost(clock);
  await clock.advance(2000);
  return agent;
}

function run(kernel: FakeKernel, script: string): void {
  kernel.run('ipv4', 'nft', script);
}

const isHooked = (kernel: FakeKernel) => /-A PREROUTING .*-j VIPNAT\n/.test(kernel.show('ipv4', 'nft'));

describe('an agent that starts', () => {
  test('writes once and looks once more, at once', async () => {
    const clock = new FakeClock();
    const { kernel } = startOnHost(clock);
    await clock.advance(1);
    expect(kernel.applied).toHaveLength(1);
    expect(kernel.reads).toBe(2);
    expect(isHooked(kernel)).toBe(true);
  });

  test('sees what changed between its first look and the first look of its watch', async () => {
    const clock = new FakeClock();
    const kernel = new FakeKernel(clock);
    kernel.watch = () => ({ ready: Promise.resolve(), close: () => Promise.resolve() });
    syncKubeProxy(kernel, nft, three);
    startAgent({ clock, kernel });
    await clock.advance(1);
    expect(kernel.reads).toBeGreaterThanOrEqual(2);
  });
});

describe('a quiet host', () => {
  test('costs one look a minute and no write, and nothing is logged (I7)', async () => {
    const { clock, kernel, logger } = await startInSync();
    const [reads, lines] = [kernel.reads, logger.lines.length];
    await clock.advance(600_000);
    expect(kernel.reads - reads).toBe(10);
    expect(kernel.applied).toHaveLength(1);
    expect(logger.lines).toHaveLength(lines);
  });

  test('is looked at as often as it is told', async () => {
    const clock = new FakeClock();
    const { kernel } = startAgent({ clock, ports: { tickMs: 200_000 } });
    await clock.advance(2000);
    const { reads } = kernel;
    await clock.advance(600_000);
    expect(kernel.reads - reads).toBe(3);
  });

  test('somebody who only looks costs no write either', async () => {
    const { clock, kernel } = await startInSync();
    kernel.trigger('xtables-lock');
    await clock.advance(1000);
    expect(kernel.applied).toHaveLength(1);
  });
});

describe('triggers', () => {
  test('of one burst are one look', async () => {
    const { clock, kernel } = await startInSync();
    const reads = kernel.reads;
    for (let change = 0; change < 15; change += 1) {
      run(kernel, `*nat\n:KUBE-SEP-${change} - [0:0]\nCOMMIT\n`);
      await clock.advance(1);
    }
    await clock.advance(100);
    expect(kernel.reads - reads).toBe(1);
  });

  test('when a stranger deletes our hook, it is back within a blink', async () => {
    const { clock, kernel } = await startInSync();
    const [hook = ''] = /-A PREROUTING .*-j VIPNAT\n/.exec(kernel.show('ipv4', 'nft')) ?? [];
    run(kernel, `*nat\n${hook.replace('-A', '-D')}COMMIT\n`);
    expect(isHooked(kernel)).toBe(false);
    await clock.advance(80);
    expect(isHooked(kernel)).toBe(true);
  });

  test('of a hook that is deleted again and again do not wait for the rest that looks owe', async () => {
    const { clock, kernel } = await startInSync();
    kernel.faults.delayEvery('iptables-nft-save', 200);
    for (const deletion of [1, 2]) {
      run(kernel, '*nat\n-F PREROUTING\nCOMMIT\n');
      // Heard after 50 ms, settled after 5, seen by a look of 200.
      await clock.advance(260);
      expect([deletion, isHooked(kernel)]).toEqual([deletion, true]);
      await clock.advance(500);
    }
  });

  test('that come during a look are followed by another one soon', async () => {
    const clock = new FakeClock();
    const kernel = new FakeKernel(clock);
    syncKubeProxy(kernel, nft, three);
    startAgent({ clock, kernel, answerMs: 200 });
    await clock.advance(5000);
    kernel.trigger('nft-generation');
    await clock.advance(100);
    // The look has read, and waits for kube-proxy's answer.
    run(kernel, '*nat\n-F PREROUTING\nCOMMIT\n');
    await clock.advance(1000);
    expect(isHooked(kernel)).toBe(true);
  });

  test('where something writes all the time, looks get rarer, and a quiet second later they come at once again', async () => {
    const { clock, kernel } = await startInSync();
    const reads = kernel.reads;
    for (let change = 0; change < 600; change += 1) {
      run(kernel, `*filter\n-A INPUT -p udp -m udp --dport ${change} -j ACCEPT\nCOMMIT\n`);
      await clock.advance(100);
    }
    expect(kernel.reads - reads).toBeLessThan(75);
    await clock.advance(3000);
    run(kernel, '*nat\n-F PREROUTING\nCOMMIT\n');
    await clock.advance(80);
    expect(isHooked(kernel)).toBe(true);
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
    const { clock, kernel, logger } = await startInSync();
    const reads = kernel.reads;
    for (let call = 0; call < 8; call += 1) {
      kernel.faults.failNext({ tool: 'iptables-nft-save', code: 'TOOL_FAILED' });
    }
    kernel.faults.failNext({ tool: 'iptables-nft-save', code: 'TOOL_NOT_PERMITTED' });
    kernel.trigger('nft-generation');
    const before = clock.now();
    while (kernel.reads === reads) await clock.advance(10);
    // 50 ms, doubled eight times.
    expect(clock.now() - before).toBeGreaterThan(50 * (2 ** 8 - 1));
    expect(clock.now() - before).toBeLessThan(70 + 50 * 2 ** 9);
    expect(linesOf({ logger }, 'error')).toEqual([
      'iptables-nft-save failed as the test asked. The last good rules stay. vipnat tries again in 100 ms',
    ]);
    expect(linesOf({ logger }, 'info').at(-1)).toMatch(/^vipnat works again after \d+ s$/);
    expect(kernel.applied).toHaveLength(1);
  });

  test('of a tool that hangs leaves the rules, and the agent goes on after it, rested (I14)', async () => {
    const { clock, kernel, logger } = await startInSync();
    kernel.faults.hangNext('netlink');
    kernel.trigger('nft-generation');
    await clock.advance(15_000);
    expect(linesOf({ logger }, 'error')).toHaveLength(1);
    expect(isHooked(kernel)).toBe(true);
    run(kernel, '*nat\n-F PREROUTING\nCOMMIT\n');
    await clock.advance(20_000);
    expect(isHooked(kernel)).toBe(true);
  });

  test('a stranger that was faster than our write is no failure: the agent looks again', async () => {
    const { clock, kernel, logger } = await startInSync();
    run(kernel, '*nat\n-I PREROUTING -j ACCEPT\nCOMMIT\n');
    kernel.faults.beforeApply(() => {
      run(kernel, '*nat\n-F PREROUTING\nCOMMIT\n');
    });
    await clock.advance(200);
    expect(isHooked(kernel)).toBe(true);
    expect(kernel.applied).toHaveLength(3);
    expect(linesOf({ logger }, 'error')).toEqual([]);
  });
});

describe('an agent that is stopped', () => {
  test('ends the write under way first, and leaves the rules (I8)', async () => {
    const clock = new FakeClock();
    const { kernel, agent } = startOnHost(clock);
    kernel.faults.hangNext('iptables-nft-restore');
    await clock.advance(1000);
    let isStopped = false;
    const stopping = agent.stop().then(() => (isStopped = true));
    await clock.advance(5000);
    expect(isStopped).toBe(false);
    await clock.advance(5000);
    await stopping;
    expect(clock.pending).toBe(0);
  });

  test('keeps silent and idle afterwards', async () => {
    const { clock, kernel, logger, agent } = await startInSync();
    await agent.stop();
    const lines = logger.lines.length;
    run(kernel, '*nat\n-F PREROUTING\nCOMMIT\n');
    await clock.advance(120_000);
    expect(isHooked(kernel)).toBe(false);
    expect(logger.lines).toHaveLength(lines);
    expect(clock.pending).toBe(0);
  });
});
