import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import {
  ordinaryConfig,
  type RunningAgent,
  startAgent,
  linesOf,
} from '../../../support/agent/running-agent.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';
import { describe, test, expect } from '@jest/globals';
import { findMissingSwitches } from '../../../../agent/forwarding.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;
const three = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'].map((text) => toEndpoint(text));

/** An agent on a host that does not forward, the first of three masters that kube-proxy knows. */
function startOnClosedHost(config = ordinaryConfig): RunningAgent {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  kernel.forwarding = { ipv4: false, ipv6: false };
  kernel.addAddress({ family: 'ipv4', address: '10.77.0.11', device: 'eth0' });
  syncKubeProxy(kernel, nft, three);
  return startAgent({ clock, kernel, config });
}

const isBalanced = (kernel: FakeKernel) =>
  /-A VIPNAT-\w+ .*-j KUBE-SVC-NPX46M4PTMTKRN6Y/.test(kernel.show('ipv4', 'nft'));

describe('a host that does not forward', () => {
  test('is made to, before the first rule, and that is said once', async () => {
    const running = startOnClosedHost();
    const { clock, kernel } = running;
    const states: boolean[] = [];
    kernel.faults.beforeApply(() => states.push(kernel.forwarding.ipv4 === true));
    await clock.advance(120_000);
    expect(states).toEqual([true]);
    expect(isBalanced(kernel)).toBe(true);
    expect(linesOf(running, 'warn')).toEqual([
      'vipnat set net.ipv4.ip_forward from 0 to 1, because balancing needs IP forwarding',
    ]);
  });

  test('is left alone in families without a VIP', async () => {
    const { clock, kernel } = startOnClosedHost();
    await clock.advance(2000);
    expect(kernel.forwarding).toEqual({ ipv4: true, ipv6: false });
  });

  test('is made to again when somebody has switched it off', async () => {
    const { clock, kernel } = startOnClosedHost();
    await clock.advance(2000);
    kernel.forwarding = { ipv4: false, ipv6: false };
    await clock.advance(1100);
    expect(kernel.forwarding.ipv4).toBe(true);
    expect(isBalanced(kernel)).toBe(true);
  });

  test('and is switched off again and again is left to its holder, with one loud line and one try a minute', async () => {
    const running = startOnClosedHost();
    const { clock, kernel, agent } = running;
    let switches = 0;
    let balancedSeconds = 0;
    for (let second = 0; second < 600; second += 1) {
      await clock.advance(1000);
      if (kernel.forwarding.ipv4 === true) switches += 1;
      if (isBalanced(kernel)) balancedSeconds += 1;
      kernel.forwarding = { ipv4: false, ipv6: false };
    }
    // Five at once, then one a minute.
    expect(switches).toBeGreaterThanOrEqual(5);
    expect(switches).toBeLessThanOrEqual(5 + 10);
    expect(balancedSeconds).toBeLessThanOrEqual(2 * switches);
    expect(agent.state.hasRuleConflict).toBe(true);
    expect(linesOf(running, 'error')).toEqual([
      expect.stringMatching(
        /^another program keeps setting net\.ipv4\.ip_forward to 0\. vipnat sets it to 1 again in \d+ s/,
      ),
    ]);
    expect(linesOf(running, 'warn').filter((line) => line.includes('from 0 to 1'))).toHaveLength(5);
    await clock.advance(180_000);
    expect(kernel.forwarding.ipv4).toBe(true);
    expect(isBalanced(kernel)).toBe(true);
    expect(agent.state.hasRuleConflict).toBe(false);
  });

  test('by a rare program is put right each time, and no fight', async () => {
    const running = startOnClosedHost();
    const { clock, kernel } = running;
    for (let times = 0; times < 20; times += 1) {
      await clock.advance(120_000);
      kernel.forwarding = { ipv4: false, ipv6: false };
      await clock.advance(1100);
      expect(kernel.forwarding.ipv4).toBe(true);
    }
    expect(linesOf(running, 'error')).toEqual([]);
  });

  test('without the right to change that leaves the VIP to its holder, says so once, and goes on when it forwards', async () => {
    const running = startOnClosedHost();
    const { clock, kernel } = running;
    for (let times = 0; times < 100; times += 1) {
      kernel.faults.failNext({ tool: 'sysctl', code: 'SYSCTL_NOT_WRITTEN' });
    }
    await clock.advance(600_000);
    expect(isBalanced(kernel)).toBe(false);
    expect(linesOf(running, 'error')).toHaveLength(1);
    expect(linesOf(running, 'warn')).toEqual([
      '10.0.0.50:6443 starts in mode passthrough: IP forwarding is off (net.ipv4.ip_forward is 0) (took 0 ms)',
    ]);
    kernel.forwarding = { ipv4: true, ipv6: false };
    await clock.advance(2000);
    expect(isBalanced(kernel)).toBe(true);
  });

  test('is only told of with --sysctls check', async () => {
    const running = startOnClosedHost({ ...ordinaryConfig, sysctls: 'check' });
    const { clock, kernel } = running;
    await clock.advance(2000);
    expect(kernel.forwarding.ipv4).toBe(false);
    expect(isBalanced(kernel)).toBe(false);
    expect(linesOf(running, 'warn')).toEqual([
      '10.0.0.50:6443 starts in mode passthrough: IP forwarding is off (net.ipv4.ip_forward is 0) (took 0 ms)',
    ]);
  });
});

describe('a host whose forwarding somebody switches off, with --sysctls check', () => {
  test('leaves the VIP to its holder within about a second, and is balanced again when it forwards', async () => {
    const clock = new FakeClock();
    const kernel = new FakeKernel(clock);
    syncKubeProxy(kernel, nft, three);
    startAgent({ clock, kernel, config: { ...ordinaryConfig, sysctls: 'check' } });
    await clock.advance(2000);
    expect(isBalanced(kernel)).toBe(true);
    kernel.forwarding = { ipv4: false, ipv6: true };
    await clock.advance(1100);
    expect(isBalanced(kernel)).toBe(false);
    kernel.forwarding = { ipv4: true, ipv6: true };
    await clock.advance(2100);
    expect(isBalanced(kernel)).toBe(true);
  });
});

describe('a host that forwards, but not what comes by the interface of the VIP', () => {
  const start = async (sysctls: 'set' | 'check', more: { address: string; prefixLength: number }) => {
    const clock = new FakeClock();
    const kernel = new FakeKernel(clock);
    kernel.addAddress({ family: 'ipv4', device: 'eth0', ...more });
    kernel.closedDevices = ['docker0', 'eth0'];
    syncKubeProxy(kernel, nft, three);
    const running = startAgent({ clock, kernel, config: { ...ordinaryConfig, sysctls } });
    await clock.advance(2000);
    return running;
  };

  test.each([
    { address: '10.0.0.50', prefixLength: 32 },
    { address: '10.0.0.11', prefixLength: 24 },
  ])('with $address/$prefixLength, is made to', async (address) => {
    const running = await start('set', address);
    expect(running.kernel.closedDevices).toEqual(['docker0']);
    expect(isBalanced(running.kernel)).toBe(true);
    expect(linesOf(running, 'warn')).toEqual([
      'vipnat set net.ipv4.conf.eth0.forwarding from 0 to 1, because balancing needs IP forwarding',
    ]);
  });

  test('is not balanced where that may not be changed', async () => {
    const running = await start('check', { address: '10.0.0.50', prefixLength: 32 });
    expect(isBalanced(running.kernel)).toBe(false);
    expect(linesOf(running, 'warn').join()).toContain('net.ipv4.conf.eth0.forwarding is 0');
  });
});

describe('a host that heeds router advertisements', () => {
  const config = {
    ...ordinaryConfig,
    vips: [toEndpoint('[fd00::50]:6443')],
    endpoints: ['[fd00::11]:6443'].map(toEndpoint),
  };

  test('is told of the interface that goes on heeding them', async () => {
    const clock = new FakeClock();
    const kernel = new FakeKernel(clock);
    kernel.forwarding = { ipv4: true, ipv6: false };
    kernel.advertised = ['eth0'];
    const running = startAgent({ clock, kernel, config });
    await clock.advance(2000);
    expect(linesOf(running, 'warn')).toEqual([
      'vipnat set net.ipv6.conf.all.forwarding from 0 to 1, because balancing needs IP forwarding',
      'vipnat set accept_ra of eth0 to 2, so that this host still obeys router advertisements',
    ]);
  });

  test('is shown one command that keeps the route, in the order in which sysctl goes', () => {
    const [missing] = findMissingSwitches(
      { forwarding: { ipv4: false, ipv6: false }, advertised: ['eth0', 'bond0.5'] },
      config,
    );
    expect(missing?.command).toBe(
      'sysctl -w net.ipv6.conf.eth0.accept_ra=2 net.ipv6.conf.bond0/5.accept_ra=2 net.ipv6.conf.all.forwarding=1',
    );
  });
});
