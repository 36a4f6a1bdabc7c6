import { type Clock } from '../../lib/control/clock.ts';
import { type Kernel } from '../../lib/kernel/port.ts';
import { type Agent } from '../reconcile/agent.ts';
import { type Config } from '../../config/config.ts';
import { createPages } from '../http/pages.ts';
import { type Page } from '../../lib/http/page.ts';
import { shareReading } from '../http/shared-reading.ts';
import { type Metrics } from '../../lib/telemetry/prometheus.ts';
import { listSamples, listWaitingSamples } from '../report/samples.ts';
import { type ProcessState, readProcess } from '../../lib/telemetry/process-samples.ts';
import { readLiveDetails } from '../report/live-details.ts';
import { toHostStatus } from '../report/host-status.ts';
import { formatStatusJson } from '../report/status-json.ts';
import { nameNode } from '../../config/node-name.ts';
import { type HolderInfo } from '../../lib/http/singleton.ts';

/** Counting connections starts a tool, and whoever asks need not be a friend. */
const findingsMs = 2000;

/** What the pages are made of. */
export interface AgentPageOptions {
  readonly agent: Agent;
  readonly info: HolderInfo;
  readonly metrics: Metrics;
  readonly kernel: Pick<Kernel, 'countFlows'>;
  readonly clock: Clock;
  readonly config: Config;
  /** See PageSources. */
  readonly pod: string | null;
}

/** What a running agent serves, by path. */
export function createAgentPages(options: AgentPageOptions): ReadonlyMap<string, Page> {
  const { agent, info, metrics, clock } = options;
  const print = shareReading(() => metrics.print(listSamples(agent.state, readAgentProcess(info))), {
    clock,
    freshMs: 0,
  });
  return createPages({
    pod: options.pod,
    behindMs: () => agent.behindMs,
    notReadyReason: () => agent.notReadyReason,
    metrics: { contentType: metrics.contentType, print },
    status: createStatus(options),
  });
}

/** What an agent serves that waits for another one: alive, and not ready for the reason given. */
export function createWaitingPages(
  { info, metrics, pod }: Pick<AgentPageOptions, 'info' | 'metrics' | 'pod'>,
  reason: () => string,
): ReadonlyMap<string, Page> {
  const print = () => metrics.print(listWaitingSamples(readAgentProcess(info)));
  return createPages({
    pod,
    behindMs: () => 0,
    notReadyReason: reason,
    metrics: { contentType: metrics.contentType, print },
    status: () => Promise.resolve(null),
  });
}

/** From the last look, and the probes since: rules are not read for it. */
function createStatus({
  agent,
  info,
  kernel,
  clock,
  config,
}: AgentPageOptions): () => Promise<string | null> {
  const find = shareReading(() => readLiveDetails(kernel, config), { clock, freshMs: findingsMs });
  return async () => {
    const { look } = agent.state;
    if (look === null) return null;
    const assessment = { ...look.assessment, health: agent.health };
    const { since, vipStaysSince } = agent.checkDrain();
    const drain = since === null ? null : { since, vipStaysSince };
    const told = { agent: info, activity: agent.activity, drain };
    const findings = { ...(await find()), ...told };
    return formatStatusJson(toHostStatus(assessment, findings), nameNode(config), clock.date());
  };
}

function readAgentProcess({ version, since }: HolderInfo): ProcessState {
  return readProcess(version, new Date(since));
}
