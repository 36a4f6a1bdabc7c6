/**
 * What continues while syncs fail, or take long.
 *
 * Goal: apiservers are probed, the list is followed, a dead one is taken out and keepalived's track file is right, whatever keeps the
 * rules from being read.
 * Tension: rules are written only from a complete reading (I1). A process that has read none does not know what its host does.
 * Compromise: who the apiservers are needs no rules: the API, the configuration, the last observation and memory name them.
 * keepalived gets what follows from the last decisions. A new process that has none assumes the mode passthrough for its VIPs,
 * but waits longer than a slow tool takes.
 */
import { type HostPorts, type Known, learnWithoutRules, listWatched } from './read-host.ts';
import { type ServingPorts, judgeServing } from './vip-holder.ts';
import { type Clock, Rounds } from '../lib/clock.ts';
import { type HealthView, chooseUsable } from './health/usable.ts';
import type { Config } from '../config/options.ts';
import type { ReconcileState, Decision, Assessment } from './decide/decision.ts';
import type { Observation } from './observe/observe.ts';
import { forgetRemoved, rememberApiservers } from './state.ts';
import { formatEndpoint } from '../lib/net.ts';

/** Its own dependencies, and those of the loop. */
export interface WithoutSyncsPorts extends Omit<HostPorts, 'health'>, ServingPorts {
  readonly clock: Clock;
  readonly health: HostPorts['health'] & { readonly view: HealthView };
  /** Reports to keepalived whether this node can serve. */
  readonly serving: { keep(isServing: boolean): void };
}

interface Learnt extends Pick<Known, 'candidates' | 'memory'> {
  /** Whether rules send connections to an apiserver that is to get none any more. */
  readonly isOutdated: boolean;
}

/** How long a sync is waited for. As often, WithoutSyncs reads what needs no rules: addresses, the list, a drain. */
const maxWaitMs = 2000;

/** A tool that reads is given up after 10 s, and two may follow one another: a host that is only slow gives no VIP up. */
const blindMs = 25_000;

/** Works from the first sync that fails or lasts, until one succeeds. */
export class WithoutSyncs {
  readonly #ports: WithoutSyncsPorts;
  readonly #config: Config;
  readonly #loop: { readonly recall: () => ReconcileState; readonly learn: (learnt: Learnt) => void };
  #observation: Observation | null = null;
  /** What the kernel holds; null where that was never known. */
  #decisions: readonly Decision[] | null = null;
  /** Since when no sync has succeeded although one began; null while all goes well. */
  #since: number | null = null;
  #isAtWork = false;
  #isAsked = false;
  readonly #rounds: Rounds;

  /** `loop` gives its memory, and gets what was learnt. */
  constructor(
    ports: WithoutSyncsPorts,
    config: Config,
    loop: { readonly recall: () => ReconcileState; readonly learn: (learnt: Learnt) => void },
  ) {
    this.#ports = ports;
    this.#config = config;
    this.#loop = loop;
    this.#rounds = new Rounds(ports.clock, this.#follow.bind(this), this.#findDelay.bind(this));
  }

  syncBegins(): void {
    if (this.#since !== null) return;
    this.#since = this.#ports.clock.now();
    this.#rounds.plan();
  }

  /** To be called after each sync that succeeded. */
  synced({ observation, decisions }: Pick<Assessment, 'observation' | 'decisions'>): void {
    this.#observation = observation;
    this.#decisions = decisions;
    this.#since = null;
    this.#isAtWork = false;
    this.#rounds.plan();
  }

  /** To be called after decisions that were written without a sync. */
  wrote(decisions: readonly Decision[]): void {
    this.#decisions = decisions;
  }

  /** To be called after each sync that failed. Returns immediately. */
  syncFailed(): void {
    this.#isAtWork = true;
    this.goOn();
  }

  /** To be called when the health or the list of apiservers has changed. Does nothing while syncs succeed. Returns immediately. */
  goOn(): void {
    if (!this.#isAtWork) return;
    this.#isAsked = true;
    this.#rounds.plan(0);
  }

  /** Nothing comes of the work in progress, so a read that hangs is not waited for. */
  stop(): void {
    void this.#rounds.stop();
  }

  /** What is asked for during a read is done once after it, whatever the read takes. */
  #findDelay(): number | null {
    if (this.#since === null) return null;
    return this.#isAtWork && this.#isAsked ? 0 : maxWaitMs;
  }

  async #follow(): Promise<void> {
    [this.#isAtWork, this.#isAsked] = [true, false];
    try {
      const { health } = this.#ports;
      const before = forgetRemoved(this.#loop.recall(), health.removed ?? new Set());
      const known = await learnWithoutRules(this.#ports, this.#config, before, this.#observation);
      if (!this.#isMeant()) return;
      await health.watch({ ...listWatched(known, this.#config), isBlind: this.#observation === null });
      if (!this.#isMeant()) return;
      const seen = { observation: known.observation, config: this.#config, memory: known.memory };
      const memory = { ...known.memory, ...rememberApiservers(seen) };
      this.#loop.learn({ candidates: known.candidates, memory, isOutdated: this.#isOutdated(known) });
      await this.#judge(known);
    } catch {
      // What fails here fails in syncs as well, and they report it.
    }
  }

  /** Whatever was awaited, syncs may succeed again or the agent may stop. */
  #isMeant(): boolean {
    return this.#isAtWork && !this.#rounds.isStopped;
  }

  /** By what decisions choose from. */
  #isOutdated({ candidates }: Known): boolean {
    const { health } = this.#ports;
    const usable = new Set(
      candidates.flatMap((one) => chooseUsable(one.candidates, health.view).value.map(formatEndpoint)),
    );
    return (this.#decisions ?? []).some(({ backends }) =>
      backends.some((backend) => !usable.has(formatEndpoint(backend))),
    );
  }

  async #judge({ observation }: Known): Promise<void> {
    const { clock, health, serving } = this.#ports;
    if (this.#decisions === null && clock.now() - (this.#since ?? clock.now()) < blindMs) return;
    const decisions =
      this.#decisions ??
      this.#config.vips.map((vip) => ({ vip, backends: [], mode: 'passthrough' as const }));
    const isServing = await judgeServing(this.#ports, { decisions, observation, health: health.view });
    if (this.#isMeant()) serving.keep(isServing);
  }
}
