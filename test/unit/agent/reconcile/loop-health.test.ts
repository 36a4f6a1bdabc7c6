import { describe, expect, test } from '@jest/globals';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';
import { linesOf, type RunningAgent, startAgent } from '../../../support/agent/running-agent.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;
const [one, two, three] = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'];
const all = [one, two, three].map(toEndpoint);

/** An agent that has followed a kube-proxy with three apiservers for four seconds. */
async function startInSync(): Promise<RunningAgent> {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  syncKubeProxy(kernel, nft, all);
  const agent = startAgent({ clock, kernel });
  await clock.advance(4000);
  return agent;
}

/** Where our rules send new connections: addresses, or kube-proxy's chain. */
function listTargets(kernel: FakeKernel): string[] {
  const rules = kernel
    .show('ipv4', 'nft')
    .split('\n')
    .filter((line) => /^-A VIPNAT-[0-9a-f]{10} /.test(line));
  return rules.map((rule) => /(?:--to-destination|-j) (10\S+|KUBE-SVC-\w+)/.exec(rule)?.[1] ?? rule);
}

const followed = ['KUBE-SVC-NPX46M4PTMTKRN6Y'];

describe('an apiserver that dies', () => {
  test('is out of the rules as soon as it is known to be dead, without a look first', async () => {
    const { clock, kernel, apiservers } = await startInSync();
    const { reads } = kernel;
    let readsAtWrite = -1;
    kernel.faults.beforeApply(() => (readsAtWrite = kernel.reads));
    apiservers.set(three, 'refusing');
    await clock.advance(15);
    expect(readsAtWrite).toBe(reads);
    expect(listTargets(kernel)).toEqual([one, two]);
    expect(kernel.breaches).toEqual([]);
  });

  test('whose host still accepts connections is out as soon as its process closes those of the probes', async () => {
    const { clock, kernel, apiservers } = await startInSync();
    apiservers.set(three, 'ending');
    await clock.advance(0);
    expect(listTargets(kernel)).toEqual([one, two]);
    expect(kernel.breaches).toEqual([]);
  });

  test('is told in two lines: where connections go instead, and what died and why', async () => {
    const agent = await startInSync();
    const before = linesOf(agent, 'info').length;
    agent.apiservers.set(three, 'refusing');
    await agent.clock.advance(1000);
    expect(linesOf(agent, 'info').slice(before)).toEqual([
      expect.stringMatching(
        /^10\.0\.0\.50:6443 changes mode, service-chain -> direct to 10\.77\.0\.11:6443, 10\.77\.0\.12:6443: kube-proxy's list is out of date: it names 3 apiservers \(.*\), and 2 apiservers are usable \(10\.77\.0\.13:6443 is draining\) \(took \d+ ms\)$/,
      ),
      expect.stringMatching(
        /^10\.77\.0\.13:6443 is dead: connection refused \d+ ms after the probe's connection closed$/,
      ),
    ]);
  });

  test('is forgotten when kube-proxy has dropped it too, after two equal looks', async () => {
    const agent = await startInSync();
    agent.apiservers.set(three, 'refusing');
    await agent.clock.advance(10_000);
    expect(listTargets(agent.kernel)).toEqual([one, two]);
    syncKubeProxy(agent.kernel, nft, all.slice(0, 2));
    await agent.clock.advance(400);
    expect(listTargets(agent.kernel)).toEqual([one, two]);
    await agent.clock.advance(1000);
    expect(listTargets(agent.kernel)).toEqual(followed);
  });

  test('is forgotten as soon where a look takes long', async () => {
    const agent = await startInSync();
    agent.kernel.faults.delayEvery('iptables-nft-save', 100);
    agent.apiservers.set(three, 'refusing');
    await agent.clock.advance(10_000);
    syncKubeProxy(agent.kernel, nft, all.slice(0, 2));
    await agent.clock.advance(3000);
    expect(listTargets(agent.kernel)).toEqual(followed);
  });

  test('while a look is under way is out all the same, and that look writes nothing that it read before', async () => {
    const { clock, kernel, apiservers } = await startInSync();
    kernel.faults.delayNext('iptables-nft-save', 400);
    kernel.trigger('nft-generation');
    await clock.advance(100);
    apiservers.set(three, 'refusing');
    await clock.advance(20);
    expect(listTargets(kernel)).toEqual([one, two]);
    await clock.advance(5000);
    expect(listTargets(kernel)).toEqual([one, two]);
    expect(kernel.breaches).toEqual([]);
  });

  test('together with another: both are out', async () => {
    const { clock, kernel, apiservers } = await startInSync();
    apiservers.set(two, 'refusing');
    apiservers.set(three, 'refusing');
    await clock.advance(200);
    expect(listTargets(kernel)).toEqual([one]);
  });

  test('with a write that fails is out by the next try', async () => {
    const { clock, kernel, apiservers } = await startInSync();
    kernel.faults.failNext({ tool: 'iptables-nft-restore', code: 'TOOL_FAILED' });
    apiservers.set(three, 'refusing');
    await clock.advance(300);
    expect(listTargets(kernel)).toEqual([one, two]);
  });
});

test('when all are dead, all are kept and kube-proxy’s chain is released, so that it can go (I11)', async () => {
  const agent = await startInSync();
  for (const endpoint of [one, two, three]) agent.apiservers.set(endpoint, 'refusing');
  await agent.clock.advance(500);
  expect(listTargets(agent.kernel)).toEqual([one, two, three]);
  expect(linesOf(agent, 'info').at(-1)).toContain(
    "no apiserver answers this node's probes, so all 3 stay in use",
  );
});

test('an agent that is cut off keeps its rules', async () => {
  const agent = await startInSync();
  agent.kernel.addAddress({ family: 'ipv4', address: '10.77.0.11', device: 'eth0' });
  await agent.clock.advance(1000);
  const writes = agent.kernel.applied.length;
  agent.apiservers.set(two, 'silent');
  agent.apiservers.set(three, 'silent');
  await agent.clock.advance(60_000);
  expect(agent.kernel.applied).toHaveLength(writes);
  expect(linesOf(agent, 'warn').filter((line) => line.includes('this node may be cut off'))).toHaveLength(1);
});

describe('connections to an apiserver', () => {
  const vip = toEndpoint('10.0.0.50:6443');
  const backend = toEndpoint(three);

  test('that is silent are reset: unanswered ones when it is dead, all after five seconds, each once', async () => {
    const { clock, kernel, apiservers } = await startInSync();
    apiservers.set(three, 'silent');
    await clock.advance(800);
    expect(kernel.resets).toEqual([{ vip, backend, isHalfOpen: true }]);
    await clock.advance(60_000);
    expect(kernel.resets).toEqual([
      { vip, backend, isHalfOpen: true },
      { vip, backend, isHalfOpen: false },
    ]);
  });

  test('that refuses or drains are left to it', async () => {
    const { clock, kernel, apiservers } = await startInSync();
    apiservers.set(two, 'failing');
    apiservers.set(three, 'refusing');
    await clock.advance(60_000);
    expect(listTargets(kernel)).toEqual([one]);
    expect(kernel.resets).toEqual([]);
  });

  test('that dies a second time are reset again', async () => {
    const { clock, kernel, apiservers } = await startInSync();
    for (let death = 0; death < 2; death += 1) {
      apiservers.set(three, 'silent');
      await clock.advance(6000);
      apiservers.set(three, 'healthy');
      await clock.advance(5000);
    }
    expect(kernel.resets.filter(({ isHalfOpen }) => !isHalfOpen)).toHaveLength(2);
  });

  test('that cannot be reset are a line, once, and everything else goes on', async () => {
    const agent = await startInSync();
    for (let death = 0; death < 2; death += 1) {
      for (let time = 0; time < 2; time += 1) {
        agent.kernel.faults.failNext({ tool: 'connections', code: 'NETLINK_FAILED' });
      }
      agent.apiservers.set(three, 'silent');
      await agent.clock.advance(5000);
      expect(listTargets(agent.kernel)).toEqual([one, two]);
      agent.apiservers.set(three, 'healthy');
      await agent.clock.advance(5000);
    }
    expect(linesOf(agent, 'warn').filter((line) => line.includes('Stale connections last'))).toHaveLength(1);
  });
});

test('however an apiserver flaps, the rules are rewritten a bounded number of times (I9)', async () => {
  const { clock, kernel, apiservers } = await startInSync();
  const writes = kernel.applied.length;
  for (let flap = 0; flap < 300; flap += 1) {
    apiservers.set(three, 'silent');
    await clock.advance(800);
    apiservers.set(three, 'healthy');
    await clock.advance(1200);
  }
  // Ten minutes of it: four falls and returns at first, then one in half a minute at most.
  expect(kernel.applied.length - writes).toBeLessThanOrEqual(2 * 4 + 2 * 20);
});

test('decisions that change with every look are no sign of somebody who undoes our rules', async () => {
  const agent = await startInSync();
  agent.kernel.faults.delayEvery('iptables-nft-save', 400);
  for (let change = 0; change < 8; change += 1) {
    agent.apiservers.set(two, change % 2 === 0 ? 'refusing' : 'healthy');
    agent.apiservers.set(three, change % 2 === 0 ? 'healthy' : 'refusing');
    await agent.clock.advance(450);
  }
  expect(linesOf(agent, 'error')).toEqual([]);
});

describe('while looks cost much and have to rest', () => {
  /** Each look takes 4 s, so the next one comes 8 s later. */
  async function startSlow(): Promise<RunningAgent> {
    const agent = await startInSync();
    agent.kernel.faults.delayEvery('netlink', 4000);
    agent.kernel.trigger('nft-generation');
    await agent.clock.advance(4500);
    return agent;
  }

  test('a death is out at once', async () => {
    const { clock, kernel, apiservers } = await startSlow();
    apiservers.set(three, 'refusing');
    await clock.advance(15);
    expect(listTargets(kernel)).toEqual([one, two]);
  });

  test('a second one is looked for at once, while the first write is not yet checked', async () => {
    const { clock, kernel, apiservers } = await startSlow();
    kernel.faults.delayNext('iptables-nft-restore', 500);
    apiservers.set(three, 'refusing');
    await clock.advance(100);
    apiservers.set(two, 'refusing');
    await clock.advance(500 + 4000);
    expect(listTargets(kernel)).toEqual([one]);
  });

  test('so is one whose write failed', async () => {
    const { clock, kernel, apiservers } = await startSlow();
    kernel.faults.failNext({ tool: 'iptables-nft-restore', code: 'TOOL_FAILED' });
    apiservers.set(three, 'refusing');
    await clock.advance(100 + 4000);
    expect(listTargets(kernel)).toEqual([one, two]);
  });
});
