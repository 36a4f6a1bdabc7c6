/**
 * Resets what hangs on dead apiservers: clients get an answer to their next packet, instead of waiting for up to
 * 15 minutes.
 *
 * Goal: each death is answered once for connections that were never established, and once for all.
 * Tension: a reset can fail for a moment or for good, and takes seconds where the connection table is large; a
 * death that comes meanwhile must not wait for it.
 * Compromise: nobody waits for a reset. One runs at a time; one that failed is tried again,
 * more and more rarely, until it is done or nothing hangs there any more.
 */
import type { Kernel } from '../lib/kernel/port.ts';
import { type Clock, type Cancel, backOff } from '../lib/clock.ts';
import type { FlowListener } from './report/events.ts';
import type { HealthView, Health } from './health/usable.ts';
import type { Decision } from './decide/decision.ts';
import { type Endpoint, formatEndpoint, parseEndpoint } from '../lib/net.ts';

/** The dependencies of flow resets. */
interface FlowPorts {
  readonly kernel: Pick<Kernel, 'resetFlows'>;
  readonly clock: Clock;
  readonly report: FlowListener;
  readonly health: {
    readonly view: HealthView;
    /** Those who are listed no more; none when left out. */
    readonly departed?: HealthView;
  };
}

/** The first retry of a reset, doubled each time: the kernel fails for a moment, or does not do that here. */
const firstRetryMs = 250;
const maxRetryMs = 30_000;

/** Keeps resetting what hangs, one after the other. */
export class FlowResets {
  readonly #ports: FlowPorts;
  #decisions: readonly Decision[] = [];
  #episodes: ReadonlyMap<string, Episode> = new Map();
  #work: Promise<void> | null = null;
  #cancel: Cancel = () => undefined;
  #isStopped = false;

  constructor(ports: FlowPorts) {
    this.#ports = ports;
  }

  /** To be called when the kernel has these decisions: a first packet that comes again is balanced again. Returns immediately. */
  hold(decisions: readonly Decision[]): void {
    this.#decisions = decisions;
    this.onHealthChange();
  }

  /** To be called when somebody's health has changed. Returns immediately. */
  onHealthChange(): void {
    const { view, departed = [] } = this.#ports.health;
    const all: HealthView = new Map([...departed, ...view]);
    const hangs = this.#decisions.flatMap((decision) => findHangs(decision, all));
    this.#episodes = new Map(
      hangs.map(({ key, ...hang }) => [
        key,
        { ...hang, progress: this.#episodes.get(key)?.progress ?? { done: 'none', failures: 0, nextTry: 0 } },
      ]),
    );
    this.#goOn();
  }

  /** Begins no further reset, and ends with the one in progress. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel();
    await this.#work;
  }

  #goOn(): void {
    this.#cancel();
    if (this.#isStopped || this.#work !== null) return;
    const [next] = [...this.#episodes.values()]
      .filter(isUndone)
      .toSorted((one, other) => one.progress.nextTry - other.progress.nextTry);
    if (next === undefined) return;
    const waitMs = next.progress.nextTry - this.#ports.clock.now();
    if (waitMs > 0) {
      this.#cancel = this.#ports.clock.schedule(waitMs, () => {
        this.#goOn();
      });
      return;
    }
    this.#work = this.#reset(next).finally(() => {
      this.#work = null;
      this.#goOn();
    });
  }

  async #reset({ vip, backend, staleConnections, progress }: Episode): Promise<void> {
    const { kernel, clock, report } = this.#ports;
    const isHalfOpen = staleConnections === 'half-open';
    try {
      const count = await kernel.resetFlows({ vip, backend, isHalfOpen });
      progress.done = staleConnections;
      progress.failures = 0;
      if (count > 0 && !isHalfOpen) report.flowsReset(vip, backend, count);
    } catch (error) {
      progress.nextTry = clock.now() + backOff(progress.failures, firstRetryMs, maxRetryMs);
      if (progress.failures === 0) report.flowsNotReset(error);
      progress.failures += 1;
    }
  }
}

/** Connections to one VIP that hang on one apiserver. */
interface Hang {
  readonly vip: Endpoint;
  readonly backend: Endpoint;
  readonly staleConnections: Health['staleConnections'];
}

/** The same, and what was done about it: forgotten with the death, also when a reset is still in progress then. */
interface Episode extends Hang {
  readonly progress: { done: Health['staleConnections']; failures: number; nextTry: number };
}

/** What hangs on apiservers that this VIP's new connections no longer go to. */
function findHangs({ vip, backends }: Decision, health: HealthView): (Hang & { readonly key: string })[] {
  const used = new Set(backends.map(formatEndpoint));
  return [...health].flatMap(([text, { staleConnections }]) => {
    const backend = parseEndpoint(text);
    return backend?.family !== vip.family || used.has(text) || staleConnections === 'none'
      ? []
      : [{ key: `${formatEndpoint(vip)} ${text}`, vip, backend, staleConnections }];
  });
}

function isUndone({ staleConnections, progress: { done } }: Episode): boolean {
  return done !== 'all' && done !== staleConnections;
}
