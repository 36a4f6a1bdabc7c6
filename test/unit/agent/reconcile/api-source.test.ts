import { describe, expect, test } from '@jest/globals';
import { type ApiView, type ClusterApi } from '../../../../agent/api/cluster-api.ts';
import { observeAndAssess } from '../../../../agent/reconcile/look.ts';
import { emptyState } from '../../../../agent/observe/reconcile-state.ts';
import { formatEndpoint } from '../../../../lib/address/endpoint.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { nobodyProbes } from '../../../support/fakes/health.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';
import { restoreCaptures } from '../../../support/agent/captured-host.ts';
import {
  linesOf,
  ordinaryConfig,
  type RunningAgent,
  startAgent,
} from '../../../support/agent/running-agent.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;
const texts = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443', '10.77.0.14:6443'];
const three = texts.slice(0, 3);
const chain = 'KUBE-SVC-NPX46M4PTMTKRN6Y';
const source = "the API's EndpointSlice kubernetes";

/** An agent that has followed a kube-proxy and an API, both with these apiservers, for two seconds. */
async function startInSync(texts: readonly string[] = three): Promise<RunningAgent> {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  syncKubeProxy(
    kernel,
    nft,
    texts.map((text) => toEndpoint(text)),
  );
  const running = startAgent({ clock, kernel });
  await clock.advance(10);
  running.api.list('ipv4', texts);
  await clock.advance(2000);
  return running;
}

/** Where our rules send new connections: addresses, or kube-proxy's chain. */
function listTargets({ kernel }: Pick<RunningAgent, 'kernel'>): string[] {
  const rules = kernel
    .show('ipv4', 'nft')
    .matchAll(/^-A VIPNAT-[0-9a-f]{10} .*(?:--to-destination|-j) (10\S+|KUBE-SVC-\w+)/gm);
  return [...rules].map(([, target = '']) => target);
}

describe('an apiserver that the API lists and kube-proxy does not', () => {
  test('is balanced over as soon as it has proven itself, and by kube-proxy once that has it', async () => {
    const running = await startInSync();
    const { clock, kernel, api } = running;
    expect(listTargets(running)).toEqual([chain]);
    api.list('ipv4', texts);
    await clock.advance(5000);
    expect(listTargets(running)).toEqual(texts);
    expect(linesOf(running, 'info').at(-1)).toMatch(
      /kube-proxy's list is out of date: it names 3 apiservers \(.*\), and 4 apiservers are usable \(the API's EndpointSlice kubernetes\)/,
    );
    syncKubeProxy(
      kernel,
      nft,
      texts.map((text) => toEndpoint(text)),
    );
    await clock.advance(2000);
    expect(listTargets(running)).toEqual([chain]);
  });

  test('is remembered, also by the next process', async () => {
    const { clock, api, store } = await startInSync();
    api.list('ipv4', texts);
    await clock.advance(5000);
    expect(store.saves.at(-1)?.endpoints.map(formatEndpoint)).toEqual(texts);
  });
});

test('an apiserver that the API no longer lists gets no connection, though kube-proxy still has it', async () => {
  const running = await startInSync();
  running.api.list('ipv4', three.slice(0, 2));
  await running.clock.advance(100);
  expect(listTargets(running)).toEqual(three.slice(0, 2));
});

test('an API that lists none is none: the next source counts, and the set is never emptied', async () => {
  const running = await startInSync();
  running.api.list('ipv4', []);
  await running.clock.advance(120_000);
  expect(listTargets(running)).toEqual([chain]);
});

describe('losing the API', () => {
  test('changes nothing in the kernel, and neither does its return (I10)', async () => {
    const running = await startInSync();
    const { clock, kernel, api } = running;
    api.list('ipv4', texts);
    await clock.advance(5000);
    const [writes, lines] = [kernel.applied.length, running.logger.lines.length];
    api.lose();
    await clock.advance(600_000);
    api.regain();
    await clock.advance(60_000);
    expect(kernel.applied).toHaveLength(writes);
    expect(running.logger.lines).toHaveLength(lines);
  });

  test('leaves its word until kube-proxy hears of something else: that is newer', async () => {
    const running = await startInSync();
    const { clock, kernel, api } = running;
    api.lose();
    await clock.advance(60_000);
    syncKubeProxy(
      kernel,
      nft,
      texts.slice(1).map((text) => toEndpoint(text)),
    );
    await clock.advance(10_000);
    expect(listTargets(running)).toEqual([chain]);
    api.regain();
    await clock.advance(100);
    expect(listTargets(running)).toEqual(texts.slice(1, 3));
  });
});

test('what the API lists and no apiserver can be at gets no connection, and is said once', async () => {
  const running = await startInSync();
  const hostile = ['10.0.0.50:6443', '127.0.0.1:6443', '224.0.0.1:6443', '169.254.1.1:6443'];
  running.api.list('ipv4', [...hostile, ...three], { refused: ['"x" is no IPv4 address'] });
  await running.clock.advance(120_000);
  expect(listTargets(running)).toEqual([chain]);
  expect(linesOf(running, 'warn')).toEqual([
    `10.0.0.50:6443 is the address of a virtual IP, so vipnat does not use it as an apiserver (${source}). Set --advertise-address of each kube-apiserver to its own host's address`,
    `127.0.0.1:6443 is a loopback address, so vipnat does not use it as an apiserver (${source})`,
    `169.254.1.1:6443 is a link-local address, so vipnat does not use it as an apiserver (${source})`,
    `224.0.0.1:6443 is a multicast address, so vipnat does not use it as an apiserver (${source})`,
    '"x" is no IPv4 address',
  ]);
});

test('an API that lists more than any control plane has is not believed', async () => {
  const running = await startInSync();
  running.api.list(
    'ipv4',
    Array.from({ length: 101 }, (_, index) => `10.78.0.${index + 1}:6443`),
  );
  await running.clock.advance(2000);
  expect(listTargets(running)).toEqual([chain]);
  expect(linesOf(running, 'warn')).toEqual([
    `the list names 101 apiservers, more than a control plane has. vipnat uses no apiserver of this list (${source})`,
  ]);
});

describe('the reason', () => {
  const said = (more: Partial<ApiView> = {}): ClusterApi => ({
    getView: () => ({
      endpoints: { ipv4: { value: three.map((text) => toEndpoint(text)), seenIn: source } },
      clusterIps: {},
      affinitySeconds: null,
      refused: [],
      isCurrent: true,
      ...more,
    }),
  });
  const lookAt = (captures: readonly string[], api: ClusterApi, answer: string | null = null) =>
    observeAndAssess(
      {
        kernel: restoreCaptures(captures),
        askProxyMode: () => Promise.resolve(answer),
        health: nobodyProbes,
        api,
      },
      ordinaryConfig,
      emptyState,
    );

  test.each<[string, string[], RegExp]>([
    [
      'service-chain',
      ['iptables-nft-save.three-endpoints.txt'],
      /^kube-proxy sends .* to the same 3 apiservers \(.*\); listed in the API's EndpointSlice kubernetes$/,
    ],
    [
      'direct',
      ['iptables-nft-save.two-endpoints.txt'],
      /^kube-proxy's list is out of date: it names 2 apiservers \(.*\), and 3 apiservers are usable \(the API's EndpointSlice kubernetes\)$/,
    ],
    ['direct', [], /^this host runs no kube-proxy \(.*\); listed in the API's EndpointSlice kubernetes$/],
  ])('names the API as the source: %s', async (way, captures, reason) => {
    const { decisions } = await lookAt(captures, said());
    expect(decisions).toMatchObject([{ way, reason: expect.stringMatching(reason) }]);
  });

  test("the Service's ClusterIP tells the virtual server from others, where none is configured", async () => {
    const captures = ['iptables-legacy-save.ipvs-three-endpoints.txt', 'proc-net-ip_vs.three-endpoints.txt'];
    const seen = (clusterIps: ApiView['clusterIps']) => lookAt(captures, said({ clusterIps }), 'ipvs');
    expect((await seen({ ipv4: '10.96.0.1' })).decisions[0]?.way).toBe('cluster-ip');
    expect((await seen({ ipv4: '10.96.0.99' })).decisions[0]?.reason).toContain(
      'no TCP virtual server 10.96.0.99:443',
    );
  });
});

describe('an apiserver that goes down', () => {
  test('is named to the API as one not to follow, until it is back', async () => {
    const { clock, apiservers, api } = await startInSync();
    const [first = ''] = texts;
    expect([...api.unwell]).toEqual([]);
    apiservers.set(first, 'refusing');
    await clock.advance(1000);
    expect([...api.unwell]).toEqual([first]);
    apiservers.set(first, 'healthy');
    await clock.advance(10_000);
    expect([...api.unwell]).toEqual([]);
  });
});
