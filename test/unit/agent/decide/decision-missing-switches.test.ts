import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';
import { describe, test, expect } from '@jest/globals';
import { findMissingSwitches } from '../../../../agent/forwarding.ts';
import { type Beginning, play, testAgent } from '../timeline.ts';
import type { Host } from '../host.ts';

/** A host that does not forward, the first of three masters. */
const closed = (sysctls: 'set' | 'check' = 'set', prepare?: (host: Host) => void): Beginning => ({
  config: { sysctls },
  prepare: (host) => {
    host.kernel.forwarding = { ipv4: false, ipv6: false };
    host.kernel.addAddress({ family: 'ipv4', address: '10.77.0.11', device: 'eth0' });
    prepare?.(host);
  },
});

const reason = 'IP forwarding is off \\(net.ipv4.ip_forward is 0\\) \\(took 0 ms\\)';
const isDeclined = `targets none; 1 line of warn .; 1 line of warn ^10.0.0.50:6443 starts in mode passthrough: ${reason}$`;

describe('a host that does not forward', () => {
  test('is made to in the families of its VIPs, before the first rule, and that is said once', async () => {
    const states: boolean[] = [];
    const beginning = closed('set', ({ kernel }) => {
      kernel.faults.beforeApply(() => states.push(kernel.forwarding.ipv4 === true));
    });
    const host = await play('wait 120000; targets proxy', beginning);
    expect(states).toEqual([true]);
    expect(host.kernel.forwarding).toEqual({ ipv4: true, ipv6: false });
    expect(host.lines('warn')).toEqual([
      'vipnat set net.ipv4.ip_forward from 0 to 1, because balancing needs IP forwarding',
    ]);
  });

  test('and is switched off again and again is left to its holder, with one loud line and one try a minute', async () => {
    const host = await play('before; proxy m1 m2 m3; start', closed());
    const { clock, kernel, running } = host;
    let switches = 0;
    let balancedSeconds = 0;
    for (let second = 0; second < 600; second += 1) {
      await clock.advance(1000);
      if (kernel.forwarding.ipv4 === true) switches += 1;
      if (host.targets === 'proxy') balancedSeconds += 1;
      kernel.forwarding = { ipv4: false, ipv6: false };
    }
    // Five at once, then one a minute.
    expect(switches).toBeGreaterThanOrEqual(5);
    expect(switches).toBeLessThanOrEqual(5 + 10);
    expect(balancedSeconds).toBeLessThanOrEqual(2 * switches);
    expect(running.agent.state.hasRuleConflict).toBe(true);
    expect(host.lines('error')).toEqual([
      expect.stringMatching(
        /^another program keeps setting net\.ipv4\.ip_forward to 0\. vipnat sets it to 1 again in \d+ s/,
      ),
    ]);
    expect(host.lines('warn').filter((line) => line.includes('from 0 to 1'))).toHaveLength(5);
    await clock.advance(180_000);
    expect([kernel.forwarding.ipv4, host.targets]).toEqual([true, 'proxy']);
    expect(running.agent.state.hasRuleConflict).toBe(false);
  });

  testAgent(
    {
      'is put right each time that a rare program switches it off, and that is no fight': `${'wait 120000; forwarding off; wait 1100; forwards; targets proxy;'.repeat(20)} 0 lines of error .`,
      'without the right to change that leaves the VIP to its holder, says so once, and goes on when it forwards':
        'before; proxy m1 m2 m3; fail sysctl as SYSCTL_NOT_WRITTEN 100 times; start; wait 600000;' +
        `1 line of error .; ${isDeclined}; forwarding on; wait 2000; targets proxy`,
    },
    closed(),
  );

  testAgent({ 'is only told of with --sysctls check': isDeclined }, closed('check'));
});

testAgent(
  {
    'a host whose forwarding somebody switches off, with --sysctls check, leaves the VIP to its holder within about a second, and is balanced again when it forwards':
      'targets proxy; forwarding off; wait 1100; targets none; forwarding on; wait 2100; targets proxy',
  },
  { config: { sysctls: 'check' } },
);

describe('a host that forwards, but not what comes by the interface of the VIP', () => {
  const start = (sysctls: 'set' | 'check', more: { address: string; prefixLength: number }) =>
    play('wait 0', {
      config: { sysctls },
      prepare: ({ kernel }) => {
        kernel.addAddress({ family: 'ipv4', device: 'eth0', ...more });
        kernel.closedDevices = ['docker0', 'eth0'];
      },
    });

  test.each([
    { address: '10.0.0.50', prefixLength: 32 },
    { address: '10.0.0.11', prefixLength: 24 },
  ])('with $address/$prefixLength, is made to', async (address) => {
    const host = await start('set', address);
    expect([host.kernel.closedDevices, host.targets]).toEqual([['docker0'], 'proxy']);
    expect(host.lines('warn')).toEqual([
      'vipnat set net.ipv4.conf.eth0.forwarding from 0 to 1, because balancing needs IP forwarding',
    ]);
  });

  test('is not balanced where that may not be changed', async () => {
    const host = await start('check', { address: '10.0.0.50', prefixLength: 32 });
    expect(host.targets).toBe('');
    expect(host.lines('warn').join()).toContain('net.ipv4.conf.eth0.forwarding is 0');
  });
});

describe('a host that heeds router advertisements', () => {
  const config = {
    ...ordinaryConfig,
    vips: [toEndpoint('[fd00::50]:6443')],
    endpoints: ['[fd00::11]:6443'].map(toEndpoint),
  };

  test('is told of the interface that goes on heeding them', async () => {
    const prepare = ({ kernel }: Host) => {
      kernel.forwarding = { ipv4: true, ipv6: false };
      kernel.advertised = ['eth0'];
    };
    const host = await play('before; start; wait 2000', { config, prepare });
    expect(host.lines('warn')).toEqual([
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
