import { type Source, countPins, listChains, sources } from './tables.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { serviceChain } from '../../../lib/kube-proxy/read.ts';
import { isToolRefusing } from '../../support/fakes/refusal.ts';
import { describe, test, expect } from '@jest/globals';
import { FakeClock } from '../../support/fakes/clock.ts';
import { apiservers, config } from './configs.ts';
import { syncKubeProxy, removeKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { startAgent, ordinaryConfig, linesOf } from '../../support/agent/running-agent.ts';
import { fc } from '../../support/random/fc.ts';
import { event, run } from './hosts.ts';
import { forAll } from './for-all.ts';

/** From the change to the end of one look: a trigger (50 ms at most for the generation), and the time to settle. */
const oneLookMs = 50 + 20;

const nft: Source = { family: 'ipv4', dialect: 'nft' };

describe('when kube-proxy wants its chain gone (I11)', () => {
  test.each(sources)('one look frees our jump, its next try succeeds: $family $dialect', async (source) => {
    const clock = new FakeClock();
    const kernel = new FakeKernel(clock);
    const own = apiservers.filter(({ family }) => family === source.family);
    syncKubeProxy(kernel, source, own);
    const release = () => {
      syncKubeProxy(kernel, source, []);
    };
    const address = source.family === 'ipv6' ? 'fd00::50' : '10.0.0.50';
    const vip = { family: source.family, address, port: 6443 };
    const agent = startAgent({ clock, kernel, config: { ...ordinaryConfig, vips: [vip] } });
    await clock.advance(5000);
    expect(countPins(kernel, source)).toBe(1);

    expect(isToolRefusing(release)).toBe(true);
    const [before, reads] = [clock.now(), kernel.reads];
    while (kernel.reads === reads) await clock.advance(1);
    expect(countPins(kernel, source)).toBe(0);
    expect(clock.now() - before).toBeLessThanOrEqual(oneLookMs);

    expect(isToolRefusing(release)).toBe(false);
    expect(listChains(kernel, source).map(({ chain }) => chain)).not.toContain(serviceChain);
    expect(linesOf(agent, 'info').at(-1)).toMatch(
      /service-chain -> direct to .*: kube-proxy wants to delete its chain/,
    );

    syncKubeProxy(kernel, source, own);
    await clock.advance(5000);
    expect(countPins(kernel, source)).toBe(1);
    await agent.agent.stop();
  });

  test('whatever happened before, kube-proxy can be removed with the second try', async () => {
    await forAll({ runs: 60 }, [fc.array(event, { maxLength: 6 }), config], async (events, wanted) => {
      const clock = new FakeClock();
      const kernel = new FakeKernel(clock);
      const { agent } = startAgent({ clock, kernel, config: { ...wanted, proxyMode: 'auto' } });
      for (const happening of [...events, { does: 'sync', source: nft, endpoints: apiservers } as const]) {
        run(kernel, happening);
        await clock.advance(500);
      }
      // A first try that fails has taken its jumps and its filter rules away: nothing is alive any more.
      isToolRefusing(() => {
        syncKubeProxy(kernel, nft, []);
      });
      await clock.advance(5000);
      expect(countPins(kernel, nft)).toBe(0);
      const remove = () => {
        removeKubeProxy(kernel, nft);
      };
      isToolRefusing(remove);
      await clock.advance(5000);
      expect(isToolRefusing(remove)).toBe(false);
      await agent.stop();
    });
  });
});
