import { describe, expect, test } from '@jest/globals';
import { createProxyAbsence } from '../../../../agent/observe/proxy-absence.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';
import { linesOf, ordinaryConfig, startAgent } from '../../../support/agent/running-agent.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;
const [one, two, three, four] = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443', '10.77.0.14:6443'];
const toEndpoints = (...texts: (string | undefined)[]) => texts.map((text = '') => toEndpoint(text));
const config = { ...ordinaryConfig, endpoints: toEndpoints(one, two, four) };

async function start(isAbsent: boolean) {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  syncKubeProxy(kernel, nft, toEndpoints(one, two, three));
  const ports = { askProxyAbsence: () => Promise.resolve(isAbsent) };
  const running = startAgent({ clock, kernel, config, ports });
  await clock.advance(5000);
  const targets = [...kernel.show('ipv4', 'nft').matchAll(/-A VIPNAT-\S+ .*--to-destination (\S+)/g)];
  return { running, targets: targets.map(([, target]) => target) };
}

describe('rules of kube-proxy beside --endpoints', () => {
  test('that nobody maintains do not outrank it, and are no fallback', async () => {
    const { running, targets } = await start(true);
    expect(targets).toEqual([one, two, four]);
    for (const text of [one, two, four]) running.apiservers.set(text, 'refusing');
    await running.clock.advance(5000);
    expect([...running.agent.health.keys()]).toEqual([one, two, four]);
  });

  test('that kube-proxy maintains do, and that is said once', async () => {
    const { running, targets } = await start(false);
    expect(targets).toEqual([]);
    await running.clock.advance(120_000);
    expect(linesOf(running, 'warn')).toEqual([
      '--endpoints names 10.77.0.14:6443, and nat KUBE-SVC-NPX46M4PTMTKRN6Y (iptables-nft) does not. vipnat uses the list of nat KUBE-SVC-NPX46M4PTMTKRN6Y (iptables-nft)',
    ]);
  });
});

test('kube-proxy is absent at once for a process that never saw it, and else when it was missed for a minute', async () => {
  const clock = new FakeClock();
  let isSeen = false;
  const ask = createProxyAbsence(clock, () => Promise.resolve(isSeen));
  expect(await ask(null)).toBe(true);
  expect(await ask('iptables')).toBe(false);
  // From one look to the next on a quiet host.
  await clock.advance(60_000);
  expect(await ask(null)).toBe(false);
  await clock.advance(60_000);
  expect(await ask(null)).toBe(true);
  isSeen = true;
  expect(await ask(null)).toBe(false);
  isSeen = false;
  expect(await ask(null)).toBe(false);
});
