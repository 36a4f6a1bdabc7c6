import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { OddKernel } from './odd-kernel.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { type RunningAgent, startAgent, linesOf, ordinaryConfig } from '../../support/agent/running-agent.ts';
import { syncKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import type { FakeKernel } from '../../support/fakes/kernel.ts';
import { describe, test, expect } from '@jest/globals';
import { advanceUntil } from '../advance-until.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;
const three = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'].map(toEndpoint);
const two = three.slice(0, 2);

/** A host on which kube-proxy has three apiservers, and an agent in its first millisecond. */
function startOnHost(kernel: OddKernel, clock: FakeClock): RunningAgent {
  syncKubeProxy(kernel, nft, three);
  return startAgent({ clock, kernel });
}

function run(kernel: FakeKernel, script: string): void {
  kernel.run('ipv4', 'nft', script);
}

describe('a tool that prints our rules in a way of its own', () => {
  const addOption = (text: string) =>
    text.replaceAll(/(-A VIPNAT-POSTROUTING .*-j MASQUERADE --random-fully)$/gm, '$1 --odd');

  test('is believed after two writes, and then all is in sync', async () => {
    const clock = new FakeClock();
    const kernel = new OddKernel(clock);
    kernel.print = addOption;
    const agent = startOnHost(kernel, clock);
    await clock.advance(10_000);
    expect(kernel.applied).toHaveLength(2);
    const reads = kernel.reads;
    await clock.advance(60_000);
    expect(kernel.reads - reads).toBe(1);
    expect(kernel.applied).toHaveLength(2);
    expect(linesOf(agent, 'error')).toEqual([]);
  });

  test('an edit that comes later is not believed', async () => {
    const clock = new FakeClock();
    const kernel = new OddKernel(clock);
    startOnHost(kernel, clock);
    await clock.advance(2000);
    const [rule = ''] = /-A VIPNAT-POSTROUTING .*\n/.exec(kernel.show('ipv4', 'nft')) ?? [];
    const edited = rule.replace('-j MASQUERADE --random-fully', '-j RETURN');
    run(kernel, `*nat\n:VIPNAT-POSTROUTING - [0:0]\n${edited}COMMIT\n`);
    await clock.advance(1000);
    expect(kernel.show('ipv4', 'nft')).toContain(rule);
    expect(kernel.show('ipv4', 'nft')).not.toContain(edited);
  });

  test('and in another one every time, is given up with RULES_NOT_CONVERGING, and tried again later', async () => {
    const clock = new FakeClock();
    const kernel = new OddKernel(clock);
    let count = 0;
    kernel.print = (text) => addOption(text).replaceAll('--odd', () => `--odd ${(count += 1)}`);
    const agent = startOnHost(kernel, clock);
    await clock.advance(20);
    expect(kernel.applied).toHaveLength(3);
    const [line] = agent.logger.lines.filter(({ level }) => level === 'error');
    expect(line?.fields['code']).toBe('RULES_NOT_CONVERGING');
    expect(line?.message).toContain('vipnat wrote its rules, but they do not stay');
    await clock.advance(60_000);
    expect(kernel.applied.length).toBeGreaterThan(3);
    expect(kernel.applied.length).toBeLessThan(30);
  });
});

describe('a stranger that undoes every write at once', () => {
  test('is met with a bounded number of writes and two loud lines at most (I9)', async () => {
    const clock = new FakeClock();
    const kernel = new OddKernel(clock);
    const agent = startOnHost(kernel, clock);
    await clock.advance(2000);
    const undo = () => {
      run(kernel, '*nat\n-F VIPNAT\nCOMMIT\n');
    };
    kernel.afterApply = undo;
    undo();
    await clock.advance(300_000);
    expect(kernel.applied.length).toBeLessThanOrEqual(1 + 10 + 60 + 2);
    expect(linesOf(agent, 'error').length).toBeLessThanOrEqual(2);
  });

  test('leaves nothing behind when it stops: what two looks saw while nothing was written is no print', async () => {
    const clock = new FakeClock();
    const kernel = new OddKernel(clock);
    const agent = startOnHost(kernel, clock);
    await clock.advance(2000);
    const [rule = ''] = /-A VIPNAT-POSTROUTING .*\n/.exec(kernel.show('ipv4', 'nft')) ?? [];
    const rounds = [...Array(40).keys()].map((port) => rule.replace(/6443 -j .*/, `${port + 1} -j RETURN`));
    kernel.afterApply = () => {
      run(kernel, `*nat\n:VIPNAT-POSTROUTING - [0:0]\n${rounds.shift() ?? rule}COMMIT\n`);
    };
    kernel.afterApply();
    const isReported = () =>
      linesOf(agent, 'error').some((line) => line.includes('another program keeps undoing'));
    await advanceUntil(clock, 'a fight is told', isReported, 100);
    kernel.afterApply = () => undefined;
    // Others write beside us, and have it looked at again and again.
    for (let index = 0; index < 10; index += 1) {
      run(kernel, '*filter\n-A INPUT -s 192.0.2.1/32 -j DROP\nCOMMIT\n');
      await clock.advance(100);
    }
    await clock.advance(10_000);
    expect(kernel.show('ipv4', 'nft')).toContain(rule);
  });

  test("does not hold up a change of kube-proxy's endpoints", async () => {
    const clock = new FakeClock();
    const kernel = new OddKernel(clock);
    const agent = startAgent({ clock, kernel, config: { ...ordinaryConfig, mode: 'direct' } });
    syncKubeProxy(kernel, nft, three);
    await clock.advance(2000);
    kernel.afterApply = () => {
      run(kernel, '*filter\n-F VIPNAT-FORWARD\nCOMMIT\n');
    };
    run(kernel, '*filter\n-F VIPNAT-FORWARD\nCOMMIT\n');
    await clock.advance(60_000);
    expect(linesOf(agent, 'error').length).toBeGreaterThan(0);
    syncKubeProxy(kernel, nft, two);
    await clock.advance(200);
    const rules = kernel
      .show('ipv4', 'nft')
      .split('\n')
      .filter((rule) => /^-A VIPNAT-[0-9a-f]{10} /.test(rule));
    expect(rules).toHaveLength(two.length);
  });
});
