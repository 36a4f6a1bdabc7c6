import { toProbeSettings } from './health/monitor.ts';
import { LoopMetrics, type AgentState } from './report/metrics.ts';
import { type EndpointStore, EndpointPersister } from './state.ts';
import type { LoopObserver } from './report/events.ts';
import type { ReconcileState } from './decide/decision.ts';
import type { Apiserver } from './health/apiserver.ts';
import { type Clock, toDate } from '../lib/clock.ts';
import type { Meter } from '../lib/telemetry/metrics.ts';
import { type DrainPorts, HostDrain } from './drain.ts';
import { type TrackFile, type NoticeSource, ServingKeeper, NoticeReader } from '../lib/keepalived/write.ts';
import { type DuplicateOwnerPorts, DuplicateOwners, reportNotice } from './vip-holder.ts';
import type { FollowedApi } from './api.ts';
import { Loop, type LoopPorts } from './sync.ts';
import { isUrgent, type EndpointHealth } from './health/judge.ts';
import { UnlistedHealth } from './flows.ts';
import { LocalClients } from './local-clients.ts';
import { ConnectionWeights } from './weights.ts';
import { LoopLog, HealthLog } from './report/log.ts';
import { LastSync } from './report/status.ts';
import type { Config } from '../config/options.ts';
import { listDown, type HealthView } from './health/usable.ts';
import type { DrainState, AgentActivity, ApiSnapshot } from './ask.ts';
import { formatEndpoint } from '../lib/net.ts';

/** One observer that notifies several, in their order. An observer without a method is left out of that notice. */
export function notifyAll(observers: readonly Partial<LoopObserver>[]): LoopObserver {
  return new Proxy({} as LoopObserver, {
    get:
      (_, name) =>
      (...detail: unknown[]) => {
        for (const observer of observers) {
          const receive = observer[name as keyof LoopObserver] as
            ((...content: unknown[]) => void) | undefined;
          receive?.apply(observer, detail);
        }
      },
  });
}

/** All dependencies of an agent. */
export interface AgentPorts
  extends
    Pick<LoopPorts, 'kernel' | 'askProxyMode' | 'askProxyAbsence' | 'readListening' | 'tickMs'>,
    DuplicateOwnerPorts {
  readonly apiserver: Apiserver;
  /** Where what it does is counted. */
  readonly meter: Meter;
  readonly store: EndpointStore;
  /** Whether this host is drained, and the rule that says so to other hosts. */
  readonly drain: Pick<DrainPorts, 'store' | 'rule'>;
  /** What keepalived reads whether this node can serve. */
  readonly trackFile: TrackFile;
  /** What keepalived says of itself. */
  readonly notices: NoticeSource;
  /** Makes the source that follows the Kubernetes API and calls back at each change, see agent/api/. */
  readonly followApi: (onChange: () => void) => FollowedApi;
}

/** The loop and the probes. Syncs find the apiservers to probe; changes of their health trigger syncs. */
export class Agent {
  readonly #loop: Loop;
  readonly #monitor: UnlistedHealth;
  readonly #keeper: EndpointPersister;
  readonly #serving: ServingKeeper;
  readonly #localClients: LocalClients;
  readonly #notices: NoticeReader;
  /** Null without the method `lc`: then nobody counts. */
  readonly #weights: ConnectionWeights | null;
  readonly #duplicateOwners: DuplicateOwners;
  readonly #drain: HostDrain;
  readonly #clock: Clock;
  readonly #api: FollowedApi;
  readonly #report: LoopLog;
  readonly #lastSync = new LastSync();

  /** `memory` is what it begins with; its apiservers are those of the store. */
  constructor(ports: AgentPorts, config: Config, memory: ReconcileState) {
    const { kernel, apiserver, clock, logger, events } = ports;
    this.#clock = clock;
    const healthReport = new HealthLog(logger, events);
    const metrics = new LoopMetrics(ports.meter, config.vips);
    const syncSoon = () => {
      this.#loop.onHealthChange();
    };
    const probing = {
      apiserver,
      clock,
      settings: toProbeSettings(config),
      onChange: (before: EndpointHealth, after: EndpointHealth) => {
        this.#loop.onHealthChange(isUrgent(before, after));
        this.#api.setUnhealthy(listDown(this.#monitor.view));
        healthReport.report(before, after);
        metrics.healthChanged(before, after);
      },
      onLeave: healthReport.forget.bind(healthReport),
      onDepartedChange: syncSoon,
    };
    this.#monitor = new UnlistedHealth(probing, { kernel, clock, report: healthReport }, config.vips);
    this.#keeper = new EndpointPersister(ports.store, clock, { saved: memory, logger, metrics });
    this.#report = new LoopLog(logger, clock, events);
    this.#duplicateOwners = new DuplicateOwners(ports, config.vips);
    const logs = notifyAll([this.#report, metrics]);
    this.#localClients = new LocalClients({ kernel, report: logs }, config);
    const effects = { kernel, clock, logger, onChange: syncSoon };
    this.#drain = new HostDrain({ ...ports.drain, ...effects, askLink: ports.askDuplicateOwner });
    this.#weights = config.method === 'lc' ? new ConnectionWeights(effects) : null;
    const report = notifyAll([
      this.#drain,
      this.#localClients,
      ...(this.#weights === null ? [] : [this.#weights]),
      logs,
      this.#lastSync,
      this.#duplicateOwners,
    ]);
    this.#serving = new ServingKeeper(ports.trackFile, clock, report);
    this.#notices = new NoticeReader(ports.notices, clock, reportNotice.bind(null, logger));
    this.#api = ports.followApi(() => {
      this.#loop.onApiChange();
    });
    const asked = { ...ports, isLeaving: () => this.#drain.isLeaving() };
    const inputs = { health: this.#monitor, api: this.#api, weights: () => this.#weights?.weights };
    const output = { report, keeper: this.#keeper, serving: this.#serving };
    this.#loop = new Loop({ ...asked, ...inputs, ...output }, config, memory);
  }

  get health(): HealthView {
    return this.#monitor.view;
  }

  /** How it is about the drain of this host; the file that says so is read again. */
  checkDrain(): DrainState {
    this.#drain.check();
    const { state } = this.#drain;
    const { isReported, problem } = this.#serving.state;
    return { ...state, isKept: state.isKept && isReported, vipProblem: problem?.message ?? null };
  }

  /** What it has been doing, for people. */
  get activity(): AgentActivity {
    const now = this.#clock.now();
    const { writes, syncedAt } = this.#loop.activity;
    return {
      writes,
      syncedMsAgo: syncedAt === null ? null : now - syncedAt,
      apiservers: Object.fromEntries(
        this.#monitor.all.map(({ endpoint, since }) => [formatEndpoint(endpoint), { forMs: now - since }]),
      ),
      keepalived: Object.fromEntries(
        [...this.#notices.states].map(([name, { state, since }]) => [name, { state, forMs: now - since }]),
      ),
    };
  }

  /** What it is like now, for metrics. */
  get state(): AgentState {
    const { assessment } = this.#lastSync;
    const { syncedAt } = this.#loop.activity;
    const { following } = this.#api;
    return {
      lastSync:
        assessment === null || syncedAt === null ? null : { assessment, at: toDate(this.#clock, syncedAt) },
      apiservers: this.#monitor.all,
      hasRuleConflict: this.#report.hasRuleConflict,
      api: following === null ? null : { ...following, since: toDate(this.#clock, following.since) },
      keepalived: this.#serving.state,
      isSaved: this.#keeper.isSaved,
      drain: this.#drain.state,
      duplicateOwners: this.#duplicateOwners.answers,
      localSources: this.#localClients.sources,
    };
  }

  /** How long the loop's current sync has lasted, or how late the next one is: 0 while all goes well. */
  get behindMs(): number {
    return this.#loop.activity.behindMs;
  }

  /** Why no sync has yet found the correct rules, or null, see LastSync. */
  get notReadyReason(): string | null {
    return this.#lastSync.notReadyReason;
  }

  /** What the Kubernetes API has said, and what kube-proxy had then. */
  get apiReport(): ApiSnapshot {
    return { view: this.#api.view, proxyOnly: this.#lastSync.assessment?.memory.proxyOnly ?? {} };
  }

  /** Begins to sync, and to probe what syncs find. Not to be called twice. */
  start(): void {
    this.#notices.start();
    this.#loop.start();
    this.#localClients.synced();
  }

  /** Ends all probes, and the loop after the writes in progress, if any. The rules stay (I8). */
  async stop(): Promise<void> {
    this.#monitor.stop();
    // keepalived's state is written immediately: a tool may hang for longer than whoever ends this process waits before a kill.
    await Promise.all([
      this.#loop.stop(),
      this.#monitor.stopCounting(),
      this.#drain.stop(),
      this.#drain.isLeaving().then((isLeaving) => this.#serving.release(isLeaving)),
      this.#localClients.stop(),
      this.#weights?.stop(),
    ]);
    this.#api.stop();
    this.#duplicateOwners.stop();
    await this.#keeper.settle();
    await this.#notices.stop();
  }
}
