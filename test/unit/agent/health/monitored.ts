import { type HealthState, type EndpointHealth, isUrgent } from '../../../../agent/health/judge.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { FakeApiservers } from '../../../support/fakes/apiserver.ts';
import { HealthMonitor } from '../../../../agent/health/monitor.ts';
import { SentLog } from '../../../support/fakes/sent-log.ts';
import { createRecordingLogger } from '../../../support/fakes/logger.ts';
import { RecordingEvents } from '../../../support/fakes/events.ts';
import { HealthLog } from '../../../../agent/report/log.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { formatEndpoint } from '../../../../lib/net.ts';

/** Three apiservers; the first is on the agent's own host. */
export const [local, second, third] = ['10.0.0.11:6443', '10.0.0.12:6443', '10.0.0.13:6443'] as const;
const localAddresses = new Set(['10.0.0.11']);

/** A change that the monitor told of. */
export interface Change {
  readonly atMs: number;
  readonly endpoint: string;
  readonly state: HealthState;
  readonly isUrgent: boolean;
  readonly reason: string;
}

/** A monitor in a world of fakes. */
export class Monitored {
  readonly clock: FakeClock;
  readonly apiservers: FakeApiservers;
  readonly monitor: HealthMonitor;
  readonly changes: Change[] = [];
  readonly suspicions: string[] = [];
  readonly sent = new SentLog();
  readonly logger = createRecordingLogger();
  readonly events = new RecordingEvents();
  readonly #report = new HealthLog(this.logger, this.events);

  private constructor(clock: FakeClock) {
    this.clock = clock;
    this.apiservers = new FakeApiservers(clock, this.sent.listen(clock));
    this.monitor = new HealthMonitor({
      ...{ apiserver: this.apiservers, clock, settings: { intervalMs: 250, timeoutMs: 250 } },
      onChange: (before, after) => {
        this.#note(before, after);
      },
      onLeave: (one) => {
        this.#report.forget(one);
      },
    });
  }

  /** Watches these and lets five seconds pass, in which all is well. */
  static async start(
    endpoints: readonly string[] = [local, second, third],
    clock = new FakeClock(),
  ): Promise<Monitored> {
    const monitored = new Monitored(clock);
    monitored.watch(endpoints);
    await clock.advance(5000);
    return monitored;
  }

  /** As a look does. */
  watch(endpoints: readonly string[]): void {
    this.monitor.watch({ endpoints: endpoints.map(toEndpoint), localAddresses });
  }

  get states(): HealthState[] {
    return this.monitor.all.map(({ state }) => state);
  }

  /** How one is now. */
  find(endpoint: string): EndpointHealth {
    const found = this.monitor.all.find((one) => formatEndpoint(one.endpoint) === endpoint);
    if (found === undefined) throw new Error(`${endpoint} is not watched`);
    return found;
  }

  /** Lets time pass until one is in a state; answers how long it took. */
  async waitFor(endpoint: string, state: HealthState, limitMs = 60_000): Promise<number> {
    const started = this.clock.now();
    while (this.find(endpoint).state !== state) {
      if (this.clock.now() - started > limitMs)
        throw new Error(`${endpoint} is still ${this.find(endpoint).state}`);
      await this.clock.advance(1);
    }
    return this.clock.now() - started;
  }

  #note(before: EndpointHealth, after: EndpointHealth): void {
    this.#report.report(before, after);
    const endpoint = formatEndpoint(after.endpoint);
    if (before.unconfirmedFailure === null && after.unconfirmedFailure !== null)
      this.suspicions.push(endpoint);
    if (before.state === after.state) return;
    const { state, reason } = after;
    this.changes.push({ atMs: this.clock.now(), endpoint, state, isUrgent: isUrgent(before, after), reason });
  }
}
