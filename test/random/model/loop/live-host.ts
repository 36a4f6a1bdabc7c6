import { FakeClock } from '../../../support/fakes/clock.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { type Spoil, LiveProcess } from './live-process.ts';
import type { HealthState } from '../../../../agent/health/judge.ts';
import { type ReconcileState, emptyState } from '../../../../agent/decide/decision.ts';
import { type ProxyWish, runKubeProxy } from '../host/kube-proxy.ts';
import type { Kernels } from '../host/kernels.ts';
import { type World, startProcess, toHealthView, answerMode } from '../host/world.ts';
import { product } from '../host/product.ts';
import { isToolRefusing } from '../../../support/fakes/refusal.ts';
import { deeds } from '../host/stranger.ts';

/** The longest time in which something may still come of what happened: the next tick is a minute away. */
const quietMs = 5000;

/** A small world with a running loop. It cannot be copied: a state is come to again by the same actions. */
export class LiveHost {
  readonly #clock = new FakeClock(undefined, 1);
  readonly #kernel = new FakeKernel(this.#clock);
  readonly #spoil: Spoil;
  #health: readonly HealthState[] = ['ready', 'ready', 'ready'];
  #saved: ReconcileState['endpoints'] = {};
  #proxy: ProxyWish;
  #process: LiveProcess;

  constructor(proxy: ProxyWish, spoil: Spoil) {
    this.#proxy = proxy;
    this.#spoil = spoil;
    runKubeProxy(this.#kernel, proxy);
    this.#process = this.#start(emptyState);
  }

  /** What of the process cannot be seen from outside, and yet decides how it goes on. */
  get hidden(): string {
    const { gate, writes } = this.#process;
    return JSON.stringify([gate.names, writes, this.#clock.now(), this.#clock.pending]);
  }

  get writes(): number {
    return this.#process.writes;
  }

  get breaches(): readonly string[] {
    return [...this.#process.breaches, ...this.#kernel.breaches];
  }

  /** Whether two calls are under way, so that either may end first. */
  get isTwofold(): boolean {
    return this.#process.gate.names.length > 1;
  }

  async show(kernels: Kernels): Promise<World> {
    const { last } = this.#process;
    const process = startProcess(last?.memory);
    return {
      kernel: await kernels.intern(this.#kernel.copy()),
      proxy: this.#proxy,
      isProxyAnswering: true,
      health: this.#health,
      api: null,
      saved: this.#saved,
      process: { ...process, hasLooked: last !== null, decided: last?.decisions[0] ?? null },
    };
  }

  /** The next read or write of the process is let pass, or time passes until there is one. */
  async goOn(): Promise<void> {
    const { gate } = this.#process;
    if (gate.names.length > 0) {
      await this.openGate(0);
      return;
    }
    for (let passedMs = 0; gate.names.length === 0;) {
      const nextMs = this.#clock.nextMs ?? Infinity;
      passedMs += nextMs;
      if (passedMs > quietMs) return;
      await this.#clock.advance(nextMs);
    }
  }

  /** Lets one of the calls that are under way pass. */
  async openGate(at: number): Promise<void> {
    this.#process.gate.open(at);
    await this.#clock.advance(0);
  }

  /** The agent is killed, and started anew with what the state file has. */
  async restart(): Promise<void> {
    this.#process.kill();
    this.#process = this.#start(await product.recall(this.#saved));
    await this.#clock.advance(0);
  }

  async setHealth(index: number, state: HealthState): Promise<void> {
    const isEjection = this.#health[index] === 'ready';
    this.#health = this.#health.with(index, state);
    this.#process.loop.onHealthChange(isEjection);
    await this.#clock.advance(0);
  }

  async syncProxy(proxy: ProxyWish): Promise<void> {
    this.#proxy = proxy;
    runKubeProxy(this.#kernel, proxy);
    await this.#clock.advance(0);
  }

  async doDeed(name: string): Promise<void> {
    isToolRefusing(() => deeds[name]?.(this.#kernel));
    await this.#clock.advance(0);
  }

  #start(memory: ReconcileState): LiveProcess {
    const around = {
      kernel: this.#kernel,
      clock: this.#clock,
      health: () => toHealthView({ health: this.#health }),
      answer: () => answerMode({ proxy: this.#proxy, isProxyAnswering: true }),
      save: (endpoints: ReconcileState['endpoints']) => {
        if ((endpoints.ipv4?.value ?? []).length > 0) this.#saved = endpoints;
      },
    };
    return new LiveProcess(around, memory, this.#spoil);
  }
}
