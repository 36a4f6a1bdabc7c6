import { expect, test } from '@jest/globals';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';
import { startAgent } from '../../../support/agent/running-agent.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;
const [one, two, three] = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'] as const;

test('the write that answers a death was made ready, so was the next one, and nothing is ready after the end', async () => {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  syncKubeProxy(kernel, nft, [one, two, three].map(toEndpoint));
  const { agent, apiservers } = startAgent({ clock, kernel });
  await clock.advance(2000);
  for (const endpoint of [three, two]) {
    apiservers.set(endpoint, 'refusing');
    await clock.advance(1000);
  }
  // The first is the one at the start: a write by a process that has not looked yet is never ready.
  expect(kernel.wasReady).toEqual([false, true, true]);
  expect(kernel.ready).toEqual([nft]);
  await agent.stop();
  expect(kernel.ready).toEqual([]);
});
