import type { Config } from '../config/options.ts';
import type { OwnerInfo } from '../lib/http/singleton.ts';
import { type Logger, type RecentLine, podParameter, hangingMs } from '../lib/telemetry/log.ts';
import { type Metrics, type ProcessState, readProcess } from '../lib/telemetry/metrics.ts';
import { StatusServer, type Page, toText, createProbePages, type Answer } from '../lib/http/pages.ts';
import { systemClock, sleep, type Clock } from '../lib/clock.ts';
import type { Agent } from './agent.ts';
import type { Kernel } from '../lib/kernel/port.ts';
import { listSamples, listWaitingSamples } from './report/metrics.ts';
import { countConnections, readLiveDetails, formatStatusJson, toHostStatus } from './report/status.ts';
import { nameNode } from '../config/load.ts';
import { createLivePages } from '../lib/http/live.ts';
import type { OverviewSources, createOverview } from './report/page.ts';

/** An agent that may have to wait for another one. */
export interface WaitingAgent {
  readonly config: Config;
  readonly info: OwnerInfo;
  readonly logger: Logger;
  /** Null where nothing is served. */
  readonly metrics: Metrics | null;
  readonly pod: string | null;
}

/** Serves the pages of an agent that waits, alive and not ready; null where nothing is served. Most often the other agent has the port, and answers there for both. */
export function serveWaiting(
  { config: { listen }, info, metrics, pod, logger }: WaitingAgent,
  reason: () => string,
): StatusServer | null {
  if (listen === null || metrics === null) return null;
  const print = () => metrics.print(listWaitingSamples(readAgentProcess(info)));
  const pages = createPages({
    pod,
    behindMs: () => 0,
    notReadyReason: reason,
    metrics: { contentType: metrics.contentType, print },
    status: () => Promise.resolve(null),
  });
  const server = new StatusServer({
    endpoint: listen,
    pages,
    clock: systemClock,
    onProblem: ({ message, code }) => {
      logger.debug(message, { code });
    },
    onRecovered: () => undefined,
  });
  void server.start();
  return server;
}

/** Counting connections starts a tool, and whoever asks need not be a friend. */
const [findingsMs, countLimitMs] = [2000, 1000];

interface AgentPageOptions extends Pick<WaitingAgent, 'config' | 'info' | 'pod'> {
  readonly agent: Agent;
  readonly metrics: Metrics;
  readonly kernel: Pick<Kernel, 'countFlows'>;
  readonly clock: Clock;
  /** What happened last. */
  readonly lines: readonly RecentLine[];
}

/** What a running agent serves, by path. */
export function createAgentPages(options: AgentPageOptions): ReadonlyMap<string, Page> {
  const { agent, info, metrics, clock, config, lines } = options;
  const count = createCounter(options);
  const print = shareReading(
    async () => metrics.print(listSamples(agent.state, readAgentProcess(info), await count())),
    { clock, freshMs: 0 },
  );
  const node = nameNode(config);
  const readStatus = createStatusReader(options, count);
  return createPages({
    pod: options.pod,
    behindMs: () => agent.behindMs,
    notReadyReason: () => agent.notReadyReason,
    metrics: { contentType: metrics.contentType, print },
    status: async () => {
      const status = await readStatus();
      return status === null ? null : formatStatusJson(status, node, clock.date());
    },
    overview: { node, listen: config.listen, clock, lines, readStatus },
  });
}

/** Reading a hundred thousand entries takes seconds, so it takes a twentieth of the time at most. Who asks gets no counts then. */
function createCounter({ kernel, clock, config: { vips } }: AgentPageOptions) {
  const options = { clock, freshMs: findingsMs, restFactor: 19 };
  const count = shareReading(() => countConnections(kernel, vips), options);
  return () => Promise.race([count(), sleep(clock, countLimitMs).then(() => new Map<string, null>())]);
}

/** From the last sync, and the probes since: rules are not read for it. */
function createStatusReader(
  { agent, info, kernel, clock, config }: AgentPageOptions,
  count: ReturnType<typeof createCounter>,
) {
  const find = shareReading(() => readLiveDetails(kernel, config, count), { clock, freshMs: findingsMs });
  return async () => {
    const { lastSync } = agent.state;
    if (lastSync === null) return null;
    const found = await find();
    const { since, vipStaysSince } = agent.checkDrain();
    const drain = since === null ? null : { since, vipStaysSince };
    const details = { ...found, agent: info, activity: agent.activity, drain };
    return toHostStatus({ ...lastSync.assessment, health: agent.health }, details);
  };
}

function readAgentProcess({ version, since }: OwnerInfo): ProcessState {
  return readProcess(version, new Date(since));
}

/** Where the pages that are about the agent come from. */
export interface PageSources {
  /** Which pod's probes are about this agent (VIPNAT_POD); null for an agent in none. */
  readonly pod: string | null;
  /** How long the loop's current sync has lasted, or how late the next one is. */
  readonly behindMs: () => number;
  readonly notReadyReason: () => string | null;
  /** The metrics, as Prometheus reads them. */
  readonly metrics: { readonly contentType: string; print(): Promise<string> };
  /** `status --json`; null before the first sync. */
  readonly status: () => Promise<string | null>;
  /** What the page for people shows; no such page where left out. */
  readonly overview?: OverviewSources;
}

/** By path: the agent's pages, as kubelet and Prometheus ask for them. */
export function createPages(sources: PageSources): ReadonlyMap<string, Page> {
  const { pod, behindMs, notReadyReason, metrics, status, overview } = sources;
  const isForAnother = (query: URLSearchParams) => query.has(podParameter) && query.get(podParameter) !== pod;
  const forAnother = `waiting for another agent, which runs on this host ${pod === null ? 'outside any pod' : `from a ${pod}`}`;
  const pages = createProbePages({
    metrics,
    health: (query) => (isForAnother(query) ? toText(200, 'ok') : toHealthPage(behindMs())),
    readiness: (query) => {
      const reason = isForAnother(query) ? forAnother : notReadyReason();
      return reason === null ? toText(200, 'ok') : toText(503, `not ready: ${reason}`);
    },
  });
  const statusPage: Page = async () => {
    const text = await status();
    if (text === null) return toText(503, 'no sync has succeeded yet');
    return { status: 200, type: 'application/json', text };
  };
  return new Map([
    ...pages,
    ['/status', statusPage],
    ...(overview === undefined ? [] : createLive(overview)),
  ]);
}

/** Who never asks for the page does not load it. */
function createLive(overview: OverviewSources): ReadonlyMap<string, Page> {
  let readView: ReturnType<typeof createOverview> | null = null;
  const read = async () => {
    const { createOverview } = await import('./report/page.ts');
    readView ??= createOverview(overview);
    return await readView();
  };
  return createLivePages({ clock: overview.clock, read });
}

/** Whether the agent is alive, by how long its loop is behind. */
function toHealthPage(behindMs: number): Answer {
  if (behindMs < hangingMs) return toText(200, 'ok');
  return toText(
    500,
    `the agent hangs: its sync has been running or overdue for ${Math.round(behindMs / 1000)} s`,
  );
}

/**
 * Makes a reading cheap: all who ask while it is in progress or fresh get the same. It is fresh for `freshMs` from its begin on, and for `restFactor`
 * times as long as it took from its end on. No failed one is kept.
 */
export function shareReading<T>(
  read: () => Promise<T>,
  options: { readonly clock: Clock; readonly freshMs: number; readonly restFactor?: number },
): () => Promise<T> {
  const { clock, freshMs, restFactor = 0 } = options;
  let last: { readonly reading: Promise<T>; freshUntil: number } | null = null;
  return () => {
    const begunAt = clock.now();
    if (last !== null && begunAt < last.freshUntil) return last.reading;
    const begun = { reading: read(), freshUntil: Infinity };
    last = begun;
    begun.reading.then(
      () => {
        const now = clock.now();
        begun.freshUntil = Math.max(begunAt + freshMs, now + (now - begunAt) * restFactor);
      },
      () => {
        if (last === begun) last = null;
      },
    );
    return begun.reading;
  };
}
