import { type Clock } from '../lib/kernel/clock.ts';
import { type Kernel } from '../lib/kernel/port.ts';
import { type Config } from './config/config.ts';
import { type Apiserver } from './health/apiserver.ts';
import { HealthReport } from './health/health-report.ts';
import { HealthMonitor, rateUrgency } from './health/monitor.ts';
import { type ProbeSettings } from './health/prober.ts';
import { type HealthView } from './health/usable.ts';
import { type Logger } from './log/logger.ts';
import { Loop } from './loop.ts';
import { Report } from './report.ts';

/** All that an agent needs of the world. */
export interface AgentPorts {
  readonly kernel: Kernel;
  readonly apiserver: Apiserver;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly askProxyMode: () => Promise<string | null>;
}

/** The loop and the probes, each hearing of the other: looks say whom to probe, and what probes show makes it look. */
export class Agent {
  readonly #loop: Loop;
  readonly #monitor: HealthMonitor;

  constructor({ kernel, apiserver, clock, logger, askProxyMode }: AgentPorts, config: Config) {
    const healthReport = new HealthReport(logger);
    this.#monitor = new HealthMonitor({
      apiserver,
      clock,
      settings: toProbeSettings(config),
      onChange: (before, after) => {
        const urgency = rateUrgency(before, after);
        if (urgency !== null) this.#loop.hear(urgency);
        healthReport.say(before, after);
      },
    });
    const report = new Report(logger, clock);
    this.#loop = new Loop({ kernel, askProxyMode, clock, report, health: this.#monitor }, config);
  }

  /** How the apiservers are now. */
  get health(): HealthView {
    return this.#monitor.view;
  }

  /** Begins to look, and to probe what looks find. Not to be called twice. */
  start(): void {
    this.#loop.start();
  }

  /** Ends all probes, and the loop after the write under way, if any. The rules stay (I8). */
  async stop(): Promise<void> {
    this.#monitor.stop();
    await this.#loop.stop();
    // A look that was under way may have found somebody new.
    this.#monitor.stop();
  }
}

/** How apiservers are probed, as configured. */
export function toProbeSettings({ probeIntervalMs, probeTimeoutMs }: Config): ProbeSettings {
  return { intervalMs: probeIntervalMs, timeoutMs: probeTimeoutMs };
}
