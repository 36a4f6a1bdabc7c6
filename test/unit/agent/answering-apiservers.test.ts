import { ordinaryConfig, startAgent, linesOf } from '../../support/agent/running-agent.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { test, expect } from '@jest/globals';
import { FakeClock } from '../../support/fakes/clock.ts';
import { syncKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { formatEndpoint } from '../../../lib/net.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;
const [vip] = ordinaryConfig.vips;
const [one, two, three] = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'].map(toEndpoint);
const all = [one, two, three].flatMap((endpoint) => endpoint ?? []);

/** The apiservers whose invalid replies are dropped, in the order of the rules. */
function listDropped(kernel: FakeKernel, dialect: 'nft' | 'none'): string[] {
  const text = dialect === 'nft' ? kernel.show('ipv4', 'nft') : kernel.showNft('ipv4');
  const found = text.matchAll(/(?:-A VIPNAT-INPUT -s |ip saddr )([\d.]+).* (?:--sport|tcp sport) (\d+) /g);
  return [...found].map(([, address = '', port = '']) => `${address}:${port}`);
}

test.each(['nft', 'none'] as const)(
  'an apiserver that leaves the list stays in the rules about its replies until nobody has a connection to it, also for a new agent: --iptables %s',
  async (dialect) => {
    const clock = new FakeClock();
    const kernel = new FakeKernel(clock);
    syncKubeProxy(kernel, nft, all.slice(0, 2));
    const config = { ...ordinaryConfig, iptables: dialect };
    const { agent, ...running } = startAgent({ clock, kernel, config });
    await clock.advance(10_000);
    expect(listDropped(kernel, dialect)).toEqual(all.slice(0, 2).map(formatEndpoint));
    if (vip === undefined || one === undefined) throw new Error('no VIP');
    const open = { vip, backend: one, isHalfOpen: false };
    kernel.trackFlow(open);

    // Another one comes, and nobody has interfered.
    syncKubeProxy(kernel, nft, all);
    await clock.advance(2000);
    expect(listDropped(kernel, dialect)).toEqual(all.map(formatEndpoint));
    // This one leaves.
    syncKubeProxy(kernel, nft, all.slice(1));
    await clock.advance(180_000);
    expect(listDropped(kernel, dialect)).toEqual(all.map(formatEndpoint));

    // An agent that remembers nothing finds all in sync.
    await agent.stop();
    const writes = kernel.applied.length;
    const fresh = startAgent({ clock, kernel, config });
    await clock.advance(180_000);
    expect(kernel.applied.length).toBe(writes);
    await kernel.resetFlows(open);
    await clock.advance(180_000);
    expect(listDropped(kernel, dialect)).toEqual(all.slice(1).map(formatEndpoint));

    for (const logger of [running.logger, fresh.logger]) expect(linesOf({ logger }, 'warn')).toEqual([]);
    for (const { recorded } of [running.events, fresh.events])
      expect(JSON.stringify(recorded)).not.toContain('RulesRepaired');
  },
);
