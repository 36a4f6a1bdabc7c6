import type { Config } from '../../../config/options.ts';
import { type RunningAgent, startAgent, ordinaryConfig, linesOf } from '../../support/agent/running-agent.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { syncKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { describe, test, expect } from '@jest/globals';
import { formatEndpoint } from '../../../lib/net.ts';

const sides = {
  ipv4: { vip: '10.77.0.50:6443', others: ['10.77.0.11:6443', '10.77.0.12:6443'], own: '10.77.0.13' },
  ipv6: { vip: '[fd77::50]:6443', others: ['[fd77::11]:6443', '[fd77::12]:6443'], own: 'fd77::13' },
} as const;
const remedy = "Set --advertise-address of each kube-apiserver to its own host's address";

/** Whom the cluster names, and how vipnat is started. */
interface Setting {
  readonly named: readonly string[];
  readonly settings?: Partial<Config>;
  readonly isInApi?: boolean;
}

/** On a master that has the VIP, as kubeadm leaves it with `--apiserver-advertise-address` set to the VIP. */
async function startOnHolder(
  family: 'ipv4' | 'ipv6',
  { named, settings = {}, isInApi = false }: Setting,
): Promise<RunningAgent> {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  const vip = toEndpoint(sides[family].vip);
  for (const address of [sides[family].own, vip.address])
    kernel.addAddress({ family, address, device: 'eth0' });
  syncKubeProxy(
    kernel,
    { family, dialect: 'nft' },
    named.map((text) => toEndpoint(text)),
  );
  const running = startAgent({ clock, kernel, config: { ...ordinaryConfig, vips: [vip], ...settings } });
  if (isInApi) {
    await clock.advance(10);
    running.api.list(family, named);
  }
  await clock.advance(120_000);
  return running;
}

function listTargets({ kernel }: RunningAgent, family: 'ipv4' | 'ipv6'): string[] {
  const rules = kernel
    .show(family, 'nft')
    .matchAll(/^-A VIPNAT-[0-9a-f]{10} .*(?:--to-destination|-j) (\S+:6443|KUBE-SVC-\S+)$/gm);
  return [...rules].map(([, target = '']) => target);
}

describe.each(['ipv4', 'ipv6'] as const)('an apiserver that advertises the VIP itself, %s', (family) => {
  const { vip, others, own } = sides[family];

  test.each([false, true])('alone: the holder serves, and the reason is true (API %s)', async (isInApi) => {
    const running = await startOnHolder(family, { named: [vip], isInApi });
    expect(listTargets(running, family)).toEqual([]);
    const lines = linesOf(running, 'warn');
    expect(lines).toContainEqual(
      expect.stringContaining(
        `passthrough: no apiserver is known (no source lists a usable one: ${vip} is the address of a virtual IP)`,
      ),
    );
    const sources = isInApi ? 2 : 1;
    expect(lines.filter((line) => line.endsWith(remedy))).toHaveLength(sources);
    expect(lines.join()).not.toContain('and --endpoints name none');
    expect(running.store.saves).toEqual([]);
    expect(running.trackFile.values.at(-1)).toBe(0);
    expect(running.kernel.breaches).toEqual([]);
  });

  test('beside two others: these are balanced over, and only they are remembered', async () => {
    const running = await startOnHolder(family, { named: [...others, vip], isInApi: true });
    expect(listTargets(running, family)).toEqual(others);
    const saved = running.store.saves.map(({ endpoints, former = [] }) =>
      [...endpoints, ...former].map(formatEndpoint),
    );
    expect(saved).toEqual([[...others]]);
    expect(running.trackFile.values.at(-1)).toBe(0);
  });

  test('the others gone: this host’s own apiserver serves at the host’s address, never at the VIP', async () => {
    const running = await startOnHolder(family, { named: [...others, vip] });
    for (const text of others) running.apiservers.set(text, 'refusing');
    await running.clock.advance(60_000);
    expect(listTargets(running, family)).toEqual([formatEndpoint({ family, address: own, port: 6443 })]);
    expect(running.trackFile.values.at(-1)).toBe(0);
  });

  test.each([[[vip]], [[...others, vip]]])(
    'kube-proxy’s chain to %s is not followed, though it is asked for',
    async (named) => {
      const running = await startOnHolder(family, { named, settings: { mode: 'service-chain' } });
      expect(listTargets(running, family)).toEqual([]);
      expect(linesOf(running, 'warn').join('\n')).toContain(
        `--mode service-chain is set, but kube-proxy's rules lead to ${vip}, the address of a virtual IP`,
      );
    },
  );
});
