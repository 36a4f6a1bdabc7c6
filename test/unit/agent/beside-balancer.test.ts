import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { test, expect } from '@jest/globals';
import { FakeClock } from '../../support/fakes/clock.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { parseSave } from '../../../lib/iptables/rules.ts';
import { planAccept } from '../../../balancer/table/forward.ts';
import { parseAddress } from '../../../lib/net.ts';
import { startAgent, linesOf } from '../../support/agent/running-agent.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;
const apiservers = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'].map(toEndpoint);

test.each(['agent', 'balancer'] as const)(
  'on a host that drops what it forwards, with the %s first, a balancer whose addresses change each second undoes nothing of an agent (I7)',
  async (first) => {
    const clock = new FakeClock();
    const kernel = new FakeKernel(clock);
    syncKubeProxy(kernel, nft, apiservers);
    kernel.run('ipv4', 'nft', '*filter\n:FORWARD DROP [0:0]\nCOMMIT\n');
    const balance = (addresses: readonly string[]) => {
      const seen = parseSave({ ...nft, text: kernel.show('ipv4', 'nft') });
      const script = planAccept(
        seen,
        addresses.map(parseAddress).filter((address) => address !== null),
      );
      if (script !== '') kernel.run('ipv4', 'nft', script);
      return script;
    };
    if (first === 'balancer') balance(['10.77.0.60']);
    const agent = startAgent({ clock, kernel });
    await clock.advance(2000);
    balance(['10.77.0.60']);
    await clock.advance(2000);
    const writes = kernel.applied.length;

    for (let second = 1; second <= 30; second += 1) {
      expect(balance(['10.77.0.60', `10.77.1.${second}`])).not.toBe('');
      await clock.advance(1000);
      expect(balance(['10.77.0.60', `10.77.1.${second}`])).toBe('');
    }

    expect(kernel.applied.length).toBe(writes);
    expect(linesOf(agent, 'warn')).toEqual([]);
    // A repair that is really needed is made at once.
    kernel.run('ipv4', 'nft', '*nat\n-F PREROUTING\nCOMMIT\n');
    await clock.advance(1000);
    expect(kernel.show('ipv4', 'nft')).toMatch(/-A PREROUTING .* -j VIPNAT\n/);
  },
);
