import { describe, expect, test } from '@jest/globals';
import { emptyState, type ReconcileState } from '../../../../agent/observe/reconcile-state.ts';
import { type KernelReading } from '../../../../lib/kernel/port.ts';
import { VipnatError } from '../../../../lib/text/errors.ts';
import { type RunningAgent, startAgent } from '../../../support/agent/running-agent.ts';
import { FakeApiservers } from '../../../support/fakes/apiserver.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;
const [one, two, three] = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'] as const;
const all = [one, two, three].map((text) => toEndpoint(text));

/** What a state file of all three gives a new process. */
const recalled: ReconcileState = {
  ...emptyState,
  endpoints: { ipv4: { value: all, seenIn: 'endpoints.json' } },
};

const failing = () =>
  Promise.reject(new VipnatError('TABLE_INCOMPATIBLE', 'iptables-nft-save left the table nat out'));
const hanging = () => Promise.withResolvers<KernelReading>().promise;

/** A host whose reads work until `read` is set. */
function createHost(ownAddress?: string): { clock: FakeClock; kernel: FakeKernel } {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  syncKubeProxy(kernel, nft, all);
  kernel.addAddress({ family: 'ipv4', address: '10.0.0.50', device: 'eth0' });
  if (ownAddress !== undefined) kernel.addAddress({ family: 'ipv4', address: ownAddress, device: 'eth0' });
  return { clock, kernel };
}

async function startInSync(ownAddress?: string): Promise<RunningAgent> {
  const agent = startAgent(createHost(ownAddress));
  await agent.clock.advance(3000);
  return agent;
}

const chosen = (kernel: FakeKernel) => [
  ...kernel.show('ipv4', 'nft').matchAll(/-A VIPNAT-\S+ .*--to-destination (\S+)/g),
];
const targets = (kernel: FakeKernel) => chosen(kernel).map(([, target]) => target);

describe.each([
  { how: 'fail', read: failing },
  { how: 'hang', read: hanging },
])('while reads of the kernel $how', ({ read }) => {
  test('a dead apiserver is taken out, by what was read last', async () => {
    const { clock, kernel, apiservers } = await startInSync();
    kernel.read = read;
    kernel.trigger('nft-generation');
    await clock.advance(20_000);
    apiservers.set(two, 'refusing');
    await clock.advance(3000);
    expect(targets(kernel)).toEqual([one, three]);
  });

  test('keepalived is told what the health of now says', async () => {
    const { clock, kernel, apiservers, trackFile } = await startInSync('10.77.0.11');
    apiservers.set(one, 'refusing');
    await clock.advance(5000);
    kernel.read = read;
    kernel.trigger('nft-generation');
    await clock.advance(20_000);
    for (const text of [two, three]) apiservers.set(text, 'silent');
    await clock.advance(8000);
    expect(trackFile.values).toEqual([0, 1]);
    for (const text of [two, three]) apiservers.set(text, 'healthy');
    await clock.advance(3000);
    expect(trackFile.values).toEqual([0, 1, 0]);
  });

  test('an apiserver that leaves the list of the API gets no new connections', async () => {
    const { clock, kernel, api } = await startInSync();
    api.list('ipv4', [one, two, three]);
    await clock.advance(3000);
    kernel.read = read;
    kernel.trigger('nft-generation');
    await clock.advance(20_000);
    api.list('ipv4', [one, three]);
    await clock.advance(3000);
    expect(targets(kernel)).toEqual([one, three]);
  });

  describe('a process that starts', () => {
    const startBlind = (ownAddress?: string) => {
      const { clock, kernel } = createHost(ownAddress);
      kernel.read = read;
      return startAgent({ clock, kernel, memory: recalled });
    };

    test('probes whom the state file names, and writes nothing (I1)', async () => {
      const agent = startBlind();
      agent.apiservers.set(two, 'refusing');
      await agent.clock.advance(10_000);
      expect([...agent.agent.health].map(([text, { state }]) => `${text} ${state}`)).toEqual([
        `${one} ready`,
        `${two} dead`,
        `${three} ready`,
      ]);
      expect(agent.kernel.applied).toEqual([]);
    });

    test.each([
      { where: 'without an apiserver', address: undefined, told: 1 },
      { where: 'with an apiserver that takes connections', address: '10.77.0.11', told: 0 },
    ])('on a host $where, it tells keepalived $told', async ({ address, told }) => {
      const agent = startBlind(address);
      await agent.clock.advance(30_000);
      expect(agent.trackFile.values).toEqual([told]);
    });

    test('follows the list of the API', async () => {
      const agent = startBlind();
      await agent.clock.advance(5000);
      agent.api.list('ipv4', [one, '10.77.0.14:6443']);
      await agent.clock.advance(10_000);
      expect([...agent.agent.health.keys()]).toEqual([one, '10.77.0.14:6443']);
    });
  });
});

test('a look that fails once tells keepalived nothing, and the rules from before it are trusted as ever', async () => {
  const before = await startInSync();
  before.apiservers.set(two, 'refusing');
  await before.clock.advance(3000);
  await before.agent.stop();
  const { clock, kernel } = before;
  const apiservers = new FakeApiservers(clock);
  apiservers.set(two, 'silent');
  kernel.faults.failNext({ tool: 'netlink', code: 'NETLINK_FAILED' });
  const { trackFile } = startAgent({ clock, kernel, apiservers, memory: recalled });
  for (let passed = 0; passed < 3000; passed += 10) {
    await clock.advance(10);
    expect(targets(kernel)).toEqual([one, three]);
  }
  expect(trackFile.values).toEqual([0]);
});
