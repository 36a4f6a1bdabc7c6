import { describe, expect, test } from '@jest/globals';
import { recallApiservers } from '../../../../agent/endpoints/endpoint-persister.ts';
import { emptyState, type ReconcileState } from '../../../../agent/observe/reconcile-state.ts';
import { formatEndpoint } from '../../../../lib/address/endpoint.ts';
import { VipnatError } from '../../../../lib/text/errors.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { removeKubeProxy, syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';
import { FakeStore } from '../../../support/fakes/store.ts';
import {
  linesOf,
  ordinaryConfig,
  type RunningAgent,
  startAgent,
} from '../../../support/agent/running-agent.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;
const three = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'].map((text) => toEndpoint(text));
const two = three.slice(0, 2);
const savedAt = '2026-11-21T15:04:05.678Z';

const isUnexpected = (problem: VipnatError) => {
  throw problem;
};

async function recall(store: FakeStore): Promise<ReconcileState> {
  return { ...emptyState, ...(await recallApiservers(store, isUnexpected)) };
}

/** An agent on a host on which kube-proxy has three apiservers. */
function startWithKubeProxy(store: FakeStore): RunningAgent & { readonly kernel: FakeKernel } {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  syncKubeProxy(kernel, nft, three);
  return startAgent({ clock, kernel, store });
}

const readTargets = (kernel: FakeKernel) =>
  [...kernel.show('ipv4', 'nft').matchAll(/-A VIPNAT-\w+ .*--to-destination (\S+)/g)].map(
    ([, target]) => target,
  );

const listSaved = ({ saves }: FakeStore) => saves.map(({ endpoints }) => endpoints.map(formatEndpoint));

describe('the apiservers that were last known', () => {
  test('are balanced over after a reboot, with neither API nor kube-proxy', async () => {
    const store = new FakeStore();
    await store.save({ savedAt, endpoints: three });
    const running = startAgent({ store, memory: await recall(store) });
    await running.clock.advance(2000);
    expect(readTargets(running.kernel)).toEqual(three.map(formatEndpoint));
    expect(store.saves).toHaveLength(1);
  });

  test('give way to what kube-proxy has, as soon as it has any', async () => {
    const store = new FakeStore();
    await store.save({ savedAt, endpoints: two });
    const running = startAgent({ store, memory: await recall(store) });
    await running.clock.advance(2000);
    syncKubeProxy(running.kernel, nft, three);
    // The third is warmed up first.
    await running.clock.advance(10_000);
    expect(running.kernel.show('ipv4', 'nft')).toMatch(/-A VIPNAT-\w+ .*-j KUBE-SVC-NPX46M4PTMTKRN6Y/);
    expect(listSaved(store).at(-1)).toEqual(three.map(formatEndpoint));
  });

  test('are saved once, again when kube-proxy has others, and not when it is gone', async () => {
    const store = new FakeStore();
    const { clock, kernel } = startWithKubeProxy(store);
    await clock.advance(120_000);
    expect(listSaved(store)).toEqual([three.map(formatEndpoint)]);
    syncKubeProxy(kernel, nft, two);
    await clock.advance(2000);
    // Its first try fails, as our jump pins its chain, and makes us let go.
    expect(() => {
      removeKubeProxy(kernel, nft);
    }).toThrow(VipnatError);
    await clock.advance(2000);
    removeKubeProxy(kernel, nft);
    await clock.advance(120_000);
    expect(listSaved(store)).toEqual([three, two].map((endpoints) => endpoints.map(formatEndpoint)));
  });

  test('are saved as given by --endpoints where there is no kube-proxy, and balanced over without the option', async () => {
    const store = new FakeStore();
    const first = startAgent({ store, config: { ...ordinaryConfig, endpoints: three } });
    await first.clock.advance(120_000);
    expect(listSaved(store)).toEqual([three.map(formatEndpoint)]);
    const afterReboot = startAgent({ store, memory: await recall(store) });
    await afterReboot.clock.advance(2000);
    expect(readTargets(afterReboot.kernel)).toEqual(three.map(formatEndpoint));
  });

  test('are those of kube-proxy, not of --endpoints, where both name some', async () => {
    const store = new FakeStore();
    const clock = new FakeClock();
    const kernel = new FakeKernel(clock);
    syncKubeProxy(kernel, nft, three);
    startAgent({ clock, kernel, store, config: { ...ordinaryConfig, endpoints: two } });
    await clock.advance(120_000);
    expect(listSaved(store)).toEqual([three.map(formatEndpoint)]);
  });

  test('given by --endpoints are saved as far as they can be apiservers', async () => {
    const store = new FakeStore();
    const endpoints = [...two, toEndpoint('127.0.0.1:6443')];
    const { clock } = startAgent({ store, config: { ...ordinaryConfig, endpoints } });
    await clock.advance(2000);
    expect(listSaved(store)).toEqual([two.map(formatEndpoint)]);
  });

  test('are saved anew within two minutes of their loss, and that is said', async () => {
    const store = new FakeStore();
    const running = startWithKubeProxy(store);
    await running.clock.advance(120_000);
    store.saves.splice(0);
    await running.clock.advance(130_000);
    expect(listSaved(store)).toEqual([three.map(formatEndpoint)]);
    expect(linesOf(running, 'warn')).toEqual([
      'another program removed or changed /var/lib/vipnat/endpoints.json. vipnat writes the file again',
    ]);
    store.saves.push({ savedAt, endpoints: two });
    await running.clock.advance(130_000);
    expect(listSaved(store).at(-1)).toEqual(three.map(formatEndpoint));
  });

  test('that cannot be read any more in a folder that cannot be written are said to be lost once', async () => {
    const store = new FakeStore();
    const running = startWithKubeProxy(store);
    await running.clock.advance(120_000);
    store.problem = new VipnatError('STATE_NOT_WRITTEN', 'the disk is broken');
    await running.clock.advance(600_000);
    expect(linesOf(running, 'warn')).toHaveLength(2);
    store.problem = null;
    await running.clock.advance(120_000);
    expect(linesOf(running, 'info').at(-1)).toBe('vipnat can write /var/lib/vipnat/endpoints.json again');
  });

  test('are named with the file and its age as the reason', async () => {
    const store = new FakeStore();
    await store.save({ savedAt, endpoints: [...three, toEndpoint('[fd00::11]:6443')] });
    expect((await recallApiservers(store, isUnexpected)).endpoints).toEqual({
      ipv4: { value: three, seenIn: '/var/lib/vipnat/endpoints.json of 2026-11-21 15:04' },
      ipv6: {
        value: [toEndpoint('[fd00::11]:6443')],
        seenIn: '/var/lib/vipnat/endpoints.json of 2026-11-21 15:04',
      },
    });
  });

  test('of a torn file count for nothing, and that is said', async () => {
    const store = new FakeStore();
    store.problem = new VipnatError('STATE_UNREADABLE', 'it is torn');
    const problems: VipnatError[] = [];
    expect(await recallApiservers(store, (problem) => problems.push(problem))).toEqual({
      endpoints: {},
      previousEndpoints: {},
    });
    expect(problems).toEqual([store.problem]);
  });
});

describe('a folder that cannot be written', () => {
  test('is said once and tried once a minute; everything else works', async () => {
    const store = new FakeStore();
    store.problem = new VipnatError('STATE_NOT_WRITTEN', 'the disk is full');
    const running = startWithKubeProxy(store);
    const { clock, kernel } = running;
    await clock.advance(600_000);
    expect(linesOf(running, 'warn')).toEqual(['the disk is full']);
    expect(store.attempts).toBeGreaterThan(5);
    expect(store.attempts).toBeLessThanOrEqual(11);
    expect(kernel.show('ipv4', 'nft')).toMatch(/-A PREROUTING .*-j VIPNAT\n/);
    store.problem = null;
    await clock.advance(120_000);
    expect(listSaved(store)).toEqual([three.map(formatEndpoint)]);
    expect(linesOf(running, 'info').at(-1)).toBe('vipnat can write /var/lib/vipnat/endpoints.json again');
  });
});
