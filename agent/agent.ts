import { formatEndpoint } from '../lib/address/endpoint.ts';
import { type Clock } from '../lib/kernel/clock.ts';
import { type Kernel } from '../lib/kernel/port.ts';
import { type Config } from './config/config.ts';
import { type ApiView, type FollowedApi } from './discovery/api/cluster-api.ts';
import { EndpointKeeper } from './discovery/endpoint-keeper.ts';
import { type EndpointStore } from './discovery/endpoint-store.ts';
import { type Apiserver } from './health/apiserver.ts';
import { HealthReport } from './health/health-report.ts';
import { HealthMonitor, rateUrgency } from './health/monitor.ts';
import { type ProbeSettings } from './health/prober.ts';
import { type HealthView } from './health/usable.ts';
import { type AgentActivity } from './http/agent-activity.ts';
import { type Logger } from './log/logger.ts';
import { Loop } from './loop.ts';
import { type Memory } from './memory.ts';
import { Report } from './report.ts';

/** All that an agent needs of the world. */
export interface AgentPorts {
  readonly kernel: Kernel;
  readonly apiserver: Apiserver;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly askProxyMode: () => Promise<string | null>;
  readonly store: EndpointStore;
  /** Makes the source that follows the Kubernetes API and calls back at each change, see discovery/api/. */
  readonly followApi: (onChange: () => void) => FollowedApi;
}

/** The loop and the probes, each hearing of the other: looks say whom to probe, and what probes show makes it look. */
export class Agent {
  readonly #loop: Loop;
  readonly #monitor: HealthMonitor;
  readonly #keeper: EndpointKeeper;
  readonly #clock: Clock;
  readonly #api: FollowedApi;

  /** `memory` is what it begins with; its apiservers are those of the store. */
  constructor(ports: AgentPorts, config: Config, memory: Memory) {
    const { kernel, apiserver, clock, logger, askProxyMode, store } = ports;
    this.#clock = clock;
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
    this.#keeper = new EndpointKeeper(store, clock, {
      saved: memory.endpoints,
      report: {
        notSaved: ({ message, code }) => {
          logger.warn(message, { code });
        },
        savedAgain: (location) => {
          logger.info(`${location} is written again`);
        },
      },
    });
    const report = new Report(logger, clock);
    this.#api = ports.followApi(() => {
      this.#loop.heed();
    });
    const sources = { health: this.#monitor, api: this.#api };
    const loopPorts = { kernel, askProxyMode, clock, report, ...sources, keeper: this.#keeper };
    this.#loop = new Loop(loopPorts, config, memory);
  }

  /** How the apiservers are now. */
  get health(): HealthView {
    return this.#monitor.view;
  }

  /** What it has been doing, for people. */
  get activity(): AgentActivity {
    const now = this.#clock.now();
    const { writes, lookedAt } = this.#loop.activity;
    return {
      writes,
      lookedMsAgo: lookedAt === null ? null : now - lookedAt,
      apiservers: Object.fromEntries(
        this.#monitor.all.map(({ endpoint, since }) => [formatEndpoint(endpoint), { forMs: now - since }]),
      ),
    };
  }

  /** What the Kubernetes API has said, or null. */
  get apiView(): ApiView | null {
    return this.#api.view;
  }

  /** Begins to look, and to probe what looks find. Not to be called twice. */
  start(): void {
    this.#loop.start();
  }

  /** Ends all probes, and the loop after the writes under way, if any. The rules stay (I8). */
  async stop(): Promise<void> {
    this.#monitor.stop();
    await this.#loop.stop();
    this.#api.stop();
    // A look that was under way may have found somebody new.
    this.#monitor.stop();
    await this.#keeper.settle();
  }
}

/** How apiservers are probed, as configured. */
export function toProbeSettings({ probeIntervalMs, probeTimeoutMs }: Config): ProbeSettings {
  return { intervalMs: probeIntervalMs, timeoutMs: probeTimeoutMs };
}
