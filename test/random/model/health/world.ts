import { type MonitorOptions, HealthMonitor } from '../../../../agent/health/monitor.ts';
import { type Behaviour, FakeApiservers } from '../../../support/fakes/apiserver.ts';
import { SentLog } from '../../../support/fakes/sent-log.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { apiservers } from './changes.ts';
import type { HealthState } from '../../../../agent/health/judge.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';

/** The product's monitor, or a broken one. */
export type MakeMonitor = (options: MonitorOptions) => Pick<HealthMonitor, 'watch' | 'view' | 'stop'>;

export const makeMonitor: MakeMonitor = (options) => new HealthMonitor(options);

const localAddresses = new Set(['10.0.0.11']);

interface Turn {
  readonly behaviour: Behaviour;
  readonly since: number;
}

/** A monitor and three apiservers on a clock in memory. */
export class HealthWorld {
  readonly sent = new SentLog();
  readonly #clock = new FakeClock(undefined, 1);
  readonly #apiservers = new FakeApiservers(this.#clock, this.sent.listen(this.#clock));
  readonly #monitor: ReturnType<MakeMonitor>;
  readonly #joins = new Map<string, number>();
  /** Behaviours in turn, each with the time from which it was so. */
  readonly #turns = new Map<string, Turn[]>();
  #listed: readonly string[] = [];

  constructor(make: MakeMonitor) {
    this.#monitor = make({
      apiserver: this.#apiservers,
      clock: this.#clock,
      settings: { intervalMs: 250, timeoutMs: 250 },
      onChange: () => undefined,
      // As the agent's: who leaves is probed on.
      onDepartedChange: () => undefined,
    });
    this.list(apiservers);
  }

  /** Milliseconds since its beginning. */
  get now(): number {
    return this.#clock.now();
  }

  set(endpoints: readonly string[], behaviour: Behaviour): void {
    for (const endpoint of endpoints) {
      this.#apiservers.set(endpoint, behaviour);
      this.#turns.set(endpoint, [...(this.#turns.get(endpoint) ?? []), { behaviour, since: this.now }]);
    }
  }

  listBehaviours(endpoint: string, since: number): Behaviour[] {
    const turns: readonly Turn[] = [{ behaviour: 'healthy', since: 0 }, ...(this.#turns.get(endpoint) ?? [])];
    return turns
      .filter((_turn, index) => (turns[index + 1]?.since ?? Infinity) > since)
      .map(({ behaviour }) => behaviour);
  }

  /** The hosts of some are drained from now on, or are no longer. */
  drain(endpoints: readonly string[], isDrained: boolean): void {
    for (const endpoint of endpoints) this.#apiservers.drain(endpoint, isDrained);
  }

  isDrained(endpoint: string): boolean {
    return this.#apiservers.isDrained(endpoint);
  }

  /** How one behaves; null for one that is not listed. */
  behaviourOf(endpoint: string): Behaviour | null {
    return this.#listed.includes(endpoint) ? this.#apiservers.behaviourOf(endpoint) : null;
  }

  stateOf(endpoint: string): HealthState | undefined {
    return this.#monitor.view.get(endpoint)?.state;
  }

  /** How often one has come onto the list. */
  joinsOf(endpoint: string): number {
    return this.#joins.get(endpoint) ?? 0;
  }

  /** A look finds these. */
  list(endpoints: readonly string[]): void {
    for (const endpoint of endpoints)
      if (!this.#listed.includes(endpoint)) this.#joins.set(endpoint, this.joinsOf(endpoint) + 1);
    this.#listed = endpoints;
    this.#monitor.watch({ endpoints: endpoints.map(toEndpoint), localAddresses });
  }

  async pass(ms: number): Promise<void> {
    await this.#clock.advance(ms);
  }

  stop(): void {
    this.#monitor.stop();
  }
}
