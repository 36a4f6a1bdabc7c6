import { toEndpoint } from '../../support/fakes/endpoints.ts';
import type { FlowSelection } from '../../../lib/kernel/port.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { FakeStore } from '../../support/fakes/store.ts';
import { SentLog } from '../../support/fakes/sent-log.ts';
import type { Config } from '../../../config/options.ts';
import {
  ordinaryConfig,
  type RunningAgent,
  type AgentWorld,
  startAgent,
  linesOf,
} from '../../support/agent/running-agent.ts';
import { type Behaviour, FakeApiservers } from '../../support/fakes/apiserver.ts';
import { syncKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { emptyState } from '../../../agent/decide/decision.ts';
import { recallApiservers } from '../../../agent/state.ts';
import { formatEndpoint } from '../../../lib/net.ts';
import { expect } from '@jest/globals';
import type { Clock } from '../../../lib/clock.ts';

/** Where kube-proxy writes. */
export const nft = { family: 'ipv4', dialect: 'nft' } as const;

/** The agent's VIP. */
export const vip = toEndpoint('10.0.0.50:6443');

/** The apiserver of a master: `m1` is 10.77.0.11. */
export const toText = (name: string) => `10.77.0.1${name.slice(1)}:6443`;

/** The apiservers of some masters, as `m1 m2`. */
export const listTexts = (names: string) => (names.match(/m\d/g) ?? []).map(toText);

/** What the name of an apiserver is; a chain of kube-proxy is `proxy`. */
export const toName = (target: string) =>
  target.replace(/^10\.77\.0\.1(\d):6443$/, 'm$1').replace(/^KUBE-SVC-\w+$/, 'proxy');

/** A connection to the VIP that an apiserver has. */
export function flowTo(backend: string, isHalfOpen = false): FlowSelection {
  return { vip, backend: toEndpoint(backend), isHalfOpen };
}

/** A kernel that knows how often its connections were counted and forgotten, and how many of the latter are under way. */
export class CountedKernel extends FakeKernel {
  counts = 0;
  resetCalls = 0;
  mostResets = 0;
  #pending = 0;

  override countFlows(...args: Parameters<FakeKernel['countFlows']>): Promise<ReadonlyMap<string, number>> {
    this.counts += 1;
    return super.countFlows(...args);
  }

  override async resetFlows(selection: FlowSelection): Promise<number> {
    this.resetCalls += 1;
    this.#pending += 1;
    this.mostResets = Math.max(this.mostResets, this.#pending);
    try {
      return await super.resetFlows(selection);
    } finally {
      this.#pending -= 1;
    }
  }
}

/** A host on which agents come and go, one after the other. */
export class Host {
  readonly clock = new FakeClock();
  readonly kernel = new CountedKernel(this.clock);
  readonly store = new FakeStore();
  readonly sent = new SentLog();
  config: Config = ordinaryConfig;
  readonly #behaviours = new Map<string, Behaviour>();
  #life = { isOver: true };
  running!: RunningAgent;

  /** How an apiserver is from now on, for this agent and the next. */
  set(text: string, behaviour: Behaviour): void {
    this.#behaviours.set(text, behaviour);
    if (!this.#life.isOver) this.running.apiservers.set(text, behaviour);
  }

  /** kube-proxy lists these from now on. */
  proxy(texts: readonly string[]): void {
    syncKubeProxy(this.kernel, nft, texts.map(toEndpoint));
  }

  /** A new process, with what the state file has. */
  async start(world: AgentWorld = {}): Promise<void> {
    const life = { isOver: false };
    const apiservers = new FakeApiservers(this.clock, this.sent.listen(this.clock));
    for (const [text, behaviour] of this.#behaviours) apiservers.set(text, behaviour);
    const memory = { ...emptyState, ...(await recallApiservers(this.store, () => undefined)) };
    this.#life = life;
    const { clock, kernel, store, config } = this;
    const ports = { clock: createMortalClock(clock, life), ...world.ports };
    this.running = startAgent({ clock, kernel, store, config, apiservers, memory, ...world, ports });
  }

  /** The end by SIGKILL: no timer of it runs any more. */
  kill(): void {
    this.#life.isOver = true;
  }

  /** The names where our rules send new connections. */
  get targets(): string {
    const rules = this.kernel.show('ipv4', 'nft').match(/^-A VIPNAT-[0-9a-f]{10} .*$/gm) ?? [];
    return rules
      .map((rule) => toName(/(?:--to-destination|-j) (10\S+|KUBE-SVC-\w+)/.exec(rule)?.[1] ?? rule))
      .join(' ');
  }

  /** Everything that the rules said during this time, sampled each 10 ms. */
  async watchTargets(ms: number): Promise<string[]> {
    const seen = new Set([this.targets]);
    for (let passed = 0; passed < ms; passed += 10) {
      await this.clock.advance(10);
      seen.add(this.targets);
    }
    return [...seen];
  }

  /** How the agent sees all whom it probes. */
  get health(): string {
    const seen = [...this.running.agent.health].map(([text, { state }]) => `${toName(text)} ${state}`);
    return seen.sort().join(', ');
  }

  get saves(): string[] {
    return this.store.saves.map(({ endpoints }) => endpoints.map(formatEndpoint).map(toName).join(' '));
  }

  lines(level: string): string[] {
    return linesOf(this.running, level);
  }

  /** Whether an apiserver is asked anything within five seconds. */
  async isProbed(text: string): Promise<boolean> {
    this.sent.clear();
    await this.clock.advance(5000);
    return this.sent.to(text).connects.length > 0;
  }

  /** That no write broke the rules of a kernel. */
  expectNoBreach(): void {
    expect(this.kernel.breaches).toEqual([]);
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
