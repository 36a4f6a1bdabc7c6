import { describe, expect, test } from '@jest/globals';
import { recallApiservers } from '../../../../agent/endpoints/endpoint-persister.ts';
import { emptyState } from '../../../../agent/observe/reconcile-state.ts';
import { type Clock } from '../../../../lib/control/clock.ts';
import { type Behaviour, FakeApiservers } from '../../../support/fakes/apiserver.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { removeKubeProxy, syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';
import { FakeStore } from '../../../support/fakes/store.ts';
import { ordinaryConfig, type RunningAgent, startAgent } from '../../../support/agent/running-agent.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;
const texts = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'] as const;
const [one, two, three] = texts;
const all = texts.map((text) => toEndpoint(text));
const followed = ['KUBE-SVC-NPX46M4PTMTKRN6Y'];

/** A host on which agents come and go. */
class Host {
  readonly clock = new FakeClock();
  readonly kernel = new FakeKernel(this.clock);
  readonly store = new FakeStore();
  readonly #behaviours = new Map<string, Behaviour>();
  #life = { isOver: true };
  agent!: RunningAgent;

  /** How an apiserver is from now on, for this agent and the next. */
  set(text: string, behaviour: Behaviour): void {
    this.#behaviours.set(text, behaviour);
    if (!this.#life.isOver) this.agent.apiservers.set(text, behaviour);
  }

  /** A new process, with what the state file has. */
  async start(): Promise<void> {
    const life = { isOver: false };
    const apiservers = new FakeApiservers(this.clock);
    for (const [text, behaviour] of this.#behaviours) apiservers.set(text, behaviour);
    const memory = { ...emptyState, ...(await recallApiservers(this.store, () => undefined)) };
    this.#life = life;
    this.agent = startAgent({
      clock: this.clock,
      kernel: this.kernel,
      store: this.store,
      apiservers,
      memory,
      ports: { clock: createMortalClock(this.clock, life) },
    });
  }

  /** The end by SIGKILL: no timer of it runs any more. */
  kill(): void {
    this.#life.isOver = true;
  }

  /** Where our rules send new connections: addresses, or kube-proxy's chain. */
  get targets(): string[] {
    const rules = this.kernel
      .show('ipv4', 'nft')
      .split('\n')
      .filter((line) => /^-A VIPNAT-[0-9a-f]{10} /.test(line));
    return rules.map((rule) => /(?:--to-destination|-j) (10\S+|KUBE-SVC-\w+)/.exec(rule)?.[1] ?? rule);
  }

  /** Everything that the rules said during this time, sampled each 10 ms. */
  async watchTargets(ms: number): Promise<string[]> {
    const seen = new Set([this.targets.join()]);
    for (let passed = 0; passed < ms; passed += 10) {
      await this.clock.advance(10);
      seen.add(this.targets.join());
    }
    return [...seen];
  }
}

function createMortalClock(clock: Clock, life: { readonly isOver: boolean }): Clock {
  return {
    now: () => clock.now(),
    date: () => clock.date(),
    schedule: (delayMs, callback) =>
      clock.schedule(delayMs, () => {
        if (!life.isOver) callback();
      }),
  };
}

const ends = ['stopped', 'killed'] as const;

async function end(host: Host, how: (typeof ends)[number]): Promise<void> {
  if (how === 'stopped') await host.agent.agent.stop();
  else host.kill();
}

async function startFollowing(): Promise<Host> {
  const host = new Host();
  syncKubeProxy(host.kernel, nft, all);
  await host.start();
  await host.clock.advance(5000);
  expect(host.targets).toEqual(followed);
  return host;
}

const sick = ['silent', 'failing', 'ailing', 'frozen', 'refusing'] as const;

describe.each(sick)('while one apiserver is %s', (behaviour) => {
  test.each(ends)('an agent that was %s and starts again keeps it out, and writes nothing', async (how) => {
    const host = await startFollowing();
    host.set(three, behaviour);
    await host.clock.advance(30_000);
    expect(host.targets).toEqual([one, two]);
    const writes = host.kernel.applied.length;
    for (let restart = 0; restart < 3; restart += 1) {
      await end(host, how);
      await host.start();
      expect(await host.watchTargets(restart === 2 ? 20_000 : 1500)).toEqual([`${one},${two}`]);
    }
    expect(host.kernel.applied).toHaveLength(writes);

    host.set(three, 'healthy');
    await host.clock.advance(20_000);
    expect(host.targets).toEqual(followed);
  });

  test('a restarted agent that knows the apiservers from its state file alone keeps it out too', async () => {
    const host = await startFollowing();
    await host.agent.agent.stop();
    host.kernel.run('ipv4', 'nft', '*nat\n-F\n-X\nCOMMIT\n*filter\n-F\n-X\nCOMMIT\n');
    await host.start();
    await host.clock.advance(5000);
    host.set(three, behaviour);
    await host.clock.advance(30_000);
    expect(host.targets).toEqual([one, two]);
    host.kill();
    await host.start();
    expect(await host.watchTargets(20_000)).toEqual([`${one},${two}`]);
  });
});

test('it is said of one that the rules leave out why it gets no connections yet', async () => {
  const host = await startFollowing();
  host.set(three, 'frozen');
  await host.clock.advance(30_000);
  host.kill();
  await host.start();
  await host.clock.advance(1000);
  expect(host.agent.agent.health.get(three)).toMatchObject({
    state: 'warming',
    reason: 'the rules from before this start do not use it, and it has not been ready since',
  });
});

test('an agent that starts again while all apiservers refuse keeps all, and follows kube-proxy no sooner than they are back', async () => {
  const host = await startFollowing();
  for (const text of texts) host.set(text, 'refusing');
  await host.clock.advance(10_000);
  expect(host.targets).toEqual([one, two, three]);
  const { length: writes } = host.kernel.applied;
  host.kill();
  await host.start();
  expect(await host.watchTargets(10_000)).toEqual([texts.join()]);
  expect(host.kernel.applied.slice(writes).filter(({ input }) => input.includes('KUBE-SVC'))).toEqual([]);
  for (const text of texts) host.set(text, 'healthy');
  await host.clock.advance(20_000);
  expect(host.targets).toEqual(followed);
});

test('an agent that starts again stays with the only one that lived, and leaves it when that one dies', async () => {
  const host = await startFollowing();
  host.set(two, 'refusing');
  host.set(three, 'silent');
  await host.clock.advance(10_000);
  expect(host.targets).toEqual([one]);
  host.kill();
  host.set(one, 'refusing');
  host.set(two, 'healthy');
  await host.start();
  await host.clock.advance(1000);
  expect(host.targets).toEqual([two]);
});

test('one that served in place of those who are listed goes on serving when the agent starts again', async () => {
  const host = await startFollowing();
  for (const text of [one, two]) host.set(text, 'refusing');
  await host.clock.advance(5000);
  syncKubeProxy(host.kernel, nft, all.slice(2));
  await host.clock.advance(2000);
  host.set(three, 'frozen');
  host.set(one, 'healthy');
  await host.clock.advance(30_000);
  expect(host.targets).toEqual([one]);
  const writes = host.kernel.applied.length;
  host.kill();
  await host.start();
  expect(await host.watchTargets(20_000)).toEqual([one]);
  expect(host.kernel.applied).toHaveLength(writes);
});

test('rules that somebody has edited say nothing: everybody is trusted, as at any start', async () => {
  const host = await startFollowing();
  host.set(three, 'frozen');
  await host.clock.advance(30_000);
  host.kill();
  const [, chain = ''] = /^-A (VIPNAT-[0-9a-f]{10}) /m.exec(host.kernel.show('ipv4', 'nft')) ?? [];
  host.kernel.run('ipv4', 'nft', `*nat\n-I ${chain} -p udp -j RETURN\nCOMMIT\n`);
  await host.start();
  await host.clock.advance(1000);
  expect(host.targets).toEqual(followed);
});

test('an apiserver that the rules leave out and that is well is back within seconds', async () => {
  const host = await startFollowing();
  host.set(three, 'refusing');
  await host.clock.advance(5000);
  host.kill();
  host.set(three, 'healthy');
  await host.start();
  await host.clock.advance(5000);
  expect(host.targets).toEqual(followed);
});

test('without kube-proxy one that is out stays out, whatever else lists it', async () => {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  const config = { ...ordinaryConfig, endpoints: all };
  const first = startAgent({ clock, kernel, config });
  await clock.advance(5000);
  first.apiservers.set(three, 'frozen');
  await clock.advance(20_000);
  await first.agent.stop();
  const writes = kernel.applied.length;
  const apiservers = new FakeApiservers(clock);
  apiservers.set(three, 'frozen');
  startAgent({ clock, kernel, config, apiservers });
  await clock.advance(20_000);
  expect(kernel.applied).toHaveLength(writes);
  expect(kernel.show('ipv4', 'nft')).not.toContain(`--to-destination ${three}`);
  expect(() => {
    removeKubeProxy(kernel, nft);
  }).not.toThrow();
});
