import { describe, expect, test } from '@jest/globals';
import { type Config } from '../../../../config/config.ts';
import { recallApiservers } from '../../../../agent/endpoints/endpoint-persister.ts';
import { formatEndpoint } from '../../../../lib/address/endpoint.ts';
import { emptyState } from '../../../../agent/observe/reconcile-state.ts';
import { type Behaviour, FakeApiservers } from '../../../support/fakes/apiserver.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';
import { FakeStore } from '../../../support/fakes/store.ts';
import {
  linesOf,
  ordinaryConfig,
  type RunningAgent,
  startAgent,
} from '../../../support/agent/running-agent.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;
const vip = toEndpoint('10.77.0.50:6443');
const old = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'];
const own = '10.77.0.99:6443';
const config: Config = { ...ordinaryConfig, vips: [vip] };
const savedAt = '2026-11-21T15:04:05.678Z';

/** Where our rules send new connections. */
function listTargets({ kernel }: Pick<RunningAgent, 'kernel'>, family: 'ipv4' | 'ipv6' = 'ipv4'): string[] {
  const rules = kernel
    .show(family, 'nft')
    .matchAll(/^-A VIPNAT-\w+ .*(?:--to-destination|-j) (\S*[\d-]\S*)$/gm);
  return [...rules].map(([, target = '']) => target).filter((target) => !target.startsWith('VIPNAT'));
}

interface Setting {
  readonly config?: Config;
  readonly saved?: readonly string[];
  /** How the old addresses are. */
  readonly lost?: Behaviour;
  /** How whoever listens at this host's own address is. */
  readonly local?: Behaviour;
}

const addresses = [
  ['docker0', '172.17.0.1'],
  ['cni0', '10.244.1.1'],
  ['kube-ipvs0', '10.77.0.51'],
  ['eth0', '10.77.0.99'],
  ['eth0', '10.77.0.50'],
  ['eth0', 'fd77::99'],
  ['cni0', 'fd00:244:1::1'],
  ['eth0', 'fe80::1'],
] as const;

function createKernel(clock: FakeClock): FakeKernel {
  const kernel = new FakeKernel(clock);
  for (const [device, address] of addresses) {
    kernel.addAddress({ family: address.includes(':') ? 'ipv6' : 'ipv4', address, device });
  }
  return kernel;
}

/** A master whose address is a new one, with the VIP, a pod bridge and a runtime's bridge. */
async function startOnMaster(
  setting: Setting = {},
): Promise<RunningAgent & { readonly apiservers: FakeApiservers }> {
  const { saved = old, lost = 'silent', local = 'healthy' } = setting;
  const clock = new FakeClock();
  const kernel = createKernel(clock);
  const apiservers = new FakeApiservers(clock);
  for (const text of saved) apiservers.set(text, lost);
  for (const text of [own, '[fd77::99]:6443']) apiservers.set(text, local);
  const store = new FakeStore();
  if (saved.length > 0) await store.save({ savedAt, endpoints: saved.map((text) => toEndpoint(text)) });
  const memory = { ...emptyState, ...(await recallApiservers(store, () => undefined)) };
  return startAgent({ clock, kernel, apiservers, store, memory, config: setting.config ?? config });
}

describe.each(['silent', 'refusing', 'unreachable'] as const)(
  'on a host whose address has changed, while the old ones are %s',
  (lost) => {
    test('the VIP goes to the local apiserver, and keepalived keeps it', async () => {
      const running = await startOnMaster({ lost });
      await running.clock.advance(3000);
      expect(listTargets(running)).toEqual([own]);
      await running.clock.advance(60_000);
      expect(listTargets(running)).toEqual([own]);
      expect(running.trackFile.values).toEqual([0]);
      expect(running.kernel.breaches).toEqual([]);
    });

    test('--endpoints with old addresses alone does no harm either', async () => {
      const endpoints = old.map((text) => toEndpoint(text));
      const running = await startOnMaster({ lost, saved: [], config: { ...config, endpoints } });
      for (const text of old) running.apiservers.set(text, lost);
      await running.clock.advance(5000);
      expect(listTargets(running)).toEqual([own]);
      expect(running.trackFile.values).toEqual([0]);
    });
  },
);

test('the Kubernetes API is asked there too, so that the new list is learnt', async () => {
  const running = await startOnMaster();
  await running.clock.advance(3000);
  expect(running.api.known?.own?.map(formatEndpoint)).toContain(own);
});

test('the log says that it is this node’s own apiserver, and why', async () => {
  const running = await startOnMaster({ lost: 'refusing' });
  await running.clock.advance(5000);
  expect(linesOf(running, 'info').join()).toContain(
    "1 apiserver is usable (this node's own, which no source lists, because 10.77.0.11:6443 is dead, 10.77.0.12:6443 is dead, 10.77.0.13:6443 is dead)",
  );
});

test('of those that are not heard the log says just that', async () => {
  const running = await startOnMaster();
  await running.clock.advance(5000);
  expect(linesOf(running, 'info').join()).toContain(
    "1 apiserver is usable (this node's own, which no source lists, because 10.77.0.11:6443 does not answer",
  );
});

test('two VIPs, one of each family, go to the local apiserver at the address of theirs', async () => {
  const saved = [...old, '[fd77::11]:6443', '[fd77::12]:6443'];
  const vips = [vip, toEndpoint('[fd77::50]:6443')];
  const running = await startOnMaster({ saved, config: { ...config, vips } });
  await running.clock.advance(5000);
  expect(listTargets(running)).toEqual([own]);
  expect(listTargets(running, 'ipv6')).toEqual(['[fd77::99]:6443']);
  expect(running.trackFile.values).toEqual([0]);
});

test('two VIPs of one family both go there', async () => {
  const vips = [vip, toEndpoint('10.77.0.52:8443')];
  const running = await startOnMaster({ config: { ...config, vips } });
  await running.clock.advance(5000);
  expect(listTargets(running)).toEqual([own, own]);
});

test('an agent that starts again writes nothing', async () => {
  const running = await startOnMaster();
  await running.clock.advance(5000);
  await running.agent.stop();
  const { kernel, clock, store } = running;
  const writes = kernel.applied.length;
  const memory = { ...emptyState, ...(await recallApiservers(store, () => undefined)) };
  const apiservers = new FakeApiservers(clock);
  for (const text of old) apiservers.set(text, 'silent');
  const again = startAgent({ clock, kernel, apiservers, store, memory, config });
  await clock.advance(30_000);
  expect(kernel.applied).toHaveLength(writes);
  expect(listTargets(again)).toEqual([own]);
  expect(again.trackFile.values).toEqual([0]);
});

test('as soon as somebody lists apiservers that live, all is as ever, and the local address is asked no more', async () => {
  const running = await startOnMaster();
  await running.clock.advance(5000);
  const listed = [own, '10.77.0.98:6443'].map((text) => toEndpoint(text));
  syncKubeProxy(running.kernel, nft, listed);
  await running.clock.advance(20_000);
  expect(listTargets(running)).toEqual(['KUBE-SVC-NPX46M4PTMTKRN6Y']);
  syncKubeProxy(running.kernel, nft, listed.slice(1));
  await running.clock.advance(90_000);
  expect([...running.agent.health.keys()]).toEqual(['10.77.0.98:6443']);
});

test('it gets nothing while one that is listed lives', async () => {
  const running = await startOnMaster();
  running.apiservers.set('10.77.0.12:6443', 'healthy');
  await running.clock.advance(60_000);
  expect(listTargets(running)).toEqual(['10.77.0.12:6443']);
  expect([...running.agent.health.keys()]).toEqual(old);
});

test('it gives way to one that was named before and lives', async () => {
  const running = await startOnMaster();
  await running.clock.advance(5000);
  running.apiservers.set('10.77.0.12:6443', 'healthy');
  await running.clock.advance(10_000);
  expect(listTargets(running)).toEqual(['10.77.0.12:6443']);
});

test('one that comes up later than the agent serves within a second', async () => {
  const running = await startOnMaster({ local: 'refusing' });
  await running.clock.advance(45_000);
  running.apiservers.set(own, 'healthy');
  await running.clock.advance(1000);
  expect(listTargets(running)).toEqual([own]);
});

describe('on a host without an apiserver', () => {
  test('nothing is said of its own address, nor sent there', async () => {
    const running = await startOnMaster({ local: 'refusing', lost: 'refusing' });
    await running.clock.advance(120_000);
    expect(listTargets(running)).toEqual(old);
    expect([...running.agent.health.keys()]).toEqual(old);
    const said = running.logger.lines.map(({ message }) => message);
    // Its own connections come from there: that says nothing of an apiserver.
    const ofApiservers = said.filter((line) => !line.startsWith('local clients now connect to '));
    expect(ofApiservers.join('\n')).not.toContain('10.77.0.99');
  });
});

describe.each(['hanging up', 'frozen', 'failing', 'ailing'] as const)(
  'on a host where something that is %s listens at the port of apiservers',
  (local) => {
    test('it is nobody: all that are listed are kept, and none is mentioned beside them', async () => {
      const running = await startOnMaster({ local, lost: 'refusing' });
      await running.clock.advance(60_000);
      expect(listTargets(running)).toEqual(old);
      expect([...running.agent.health.keys()]).toEqual(old);
    });

    test('and nobody else is heard, keepalived gives the VIP away', async () => {
      const running = await startOnMaster({ local });
      await running.clock.advance(60_000);
      expect(listTargets(running)).toEqual(old);
      expect(running.trackFile.values.at(-1)).toBe(1);
    });
  },
);

test('where no apiserver is known the VIP is its holder’s, as ever', async () => {
  const running = await startOnMaster({ saved: [] });
  await running.clock.advance(10_000);
  expect(listTargets(running)).toEqual([]);
  expect([...running.agent.health.keys()]).toEqual([]);
});

test('when the local one dies as well, all that are listed are kept', async () => {
  const running = await startOnMaster({ lost: 'refusing' });
  await running.clock.advance(5000);
  running.apiservers.set(own, 'refusing');
  await running.clock.advance(5000);
  expect(listTargets(running)).toEqual(old);
});
