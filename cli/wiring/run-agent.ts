import { constants, setPriority } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { type VipnatError } from '../../lib/text/errors.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { type Clock, systemClock } from '../../lib/control/clock.ts';
import { systemRandom } from '../../lib/control/random.ts';
import { createKernel } from '../../lib/kernel/real/kernel.ts';
import { readListeningAddresses } from '../../lib/kernel/host/listeners.ts';
import { askOtherHolder } from '../../lib/kernel/host/other-holder.ts';
import { Agent, type AgentPorts } from '../../agent/reconcile/agent.ts';
import { type Config } from '../../config/config.ts';
import { podVariable, readTick } from '../../config/environment.ts';
import { ApiLog } from '../../agent/api/api-log.ts';
import { WatchedApi } from '../../agent/api/watched-api.ts';
import { type FollowedApi, noApi } from '../../agent/api/cluster-api.ts';
import { recallApiservers } from '../../agent/endpoints/endpoint-persister.ts';
import { createDrainStore } from '../../agent/endpoints/drain-store.ts';
import { drainPath, toDrainAnswer } from '../../agent/http/agent-drain.ts';
import { createDrainRule } from '../../lib/kernel/real/drain-rule.ts';
import { createEndpointStore } from '../../agent/endpoints/endpoint-store.ts';
import { askProxyMode } from '../../agent/observe/ask-proxy-mode.ts';
import { createProxyAbsence } from '../../agent/observe/proxy-absence.ts';
import { type EventRecorder, noEvents } from '../../lib/telemetry/recorder.ts';
import { EventWriter } from '../../lib/telemetry/writer.ts';
import { findAuthority } from '../../lib/files/authority.ts';
import { createApiserver } from '../../agent/probe/probe-connections.ts';
import { createCredentialsReader } from '../../agent/probe/probe-credentials.ts';
import { findAccess } from '../../lib/kubernetes/access.ts';
import { activityPath } from '../../agent/http/agent-activity.ts';
import { apiPath } from '../../agent/http/agent-api.ts';
import { healthPath, toHealthAnswer } from '../../agent/http/agent-health.ts';
import { optionsPath, toOptionsAnswer } from '../../agent/http/agent-options.ts';
import { type Page } from '../../lib/http/page.ts';
import { type AgentInfo, agentRole } from '../../agent/http/presence.ts';
import { Fifo } from '../../lib/files/fifo.ts';
import { StatusServer } from '../../lib/http/status-server.ts';
import { locateNotices } from '../../agent/keepalived/names.ts';
import { locateServingFile } from '../../agent/keepalived/serving-file.ts';
import { createTrackFile } from '../../lib/keepalived/track-file.ts';
import { createLogger, type Logger } from '../../lib/telemetry/logger.ts';
import { type Meter, silentMeter } from '../../lib/telemetry/meter.ts';
import { createMetrics } from '../../lib/telemetry/prometheus.ts';
import { emptyState } from '../../agent/observe/reconcile-state.ts';
import { createAgentPages } from './agent-pages.ts';
import { findRoute } from './one-shot-host.ts';
import { nameNode } from './node-name.ts';
import { createPodHeartbeat } from './pod-heartbeat.ts';
import { serveWaiting, type WaitingAgent } from './serve-waiting.ts';
import { takePlace } from './take-place.ts';
import { waitForSignal } from './wait-for-signal.ts';

/**
 * The agent: runs until SIGTERM or SIGINT. While another agent runs on this host it waits for that one to end. The rules stay
 * when it ends (I8); only `cleanup` removes them.
 */
export async function runAgent(config: Config, info: AgentInfo): Promise<number> {
  for (const flag of memoryFlags) setFlagsFromString(flag);
  const [logger, metrics] = await Promise.all([createLogger(config), config.listen && createMetrics()]);
  raisePriority(logger);
  const ending = new AbortController();
  const signal = waitForSignal().finally(() => {
    ending.abort();
  });
  const answers = new Map<string, () => object>();
  const pod = process.env[podVariable] ?? null;
  const loop = { behindMs: () => 0 };
  const beginning = { config, info, answers, logger, metrics, pod, loop };
  const heartbeat = createPodHeartbeat(logger, () => loop.behindMs());
  try {
    await heartbeat?.start();
    const release = await takePlace({
      ...{ role: agentRole, info, answers, logger, signal: ending.signal },
      serve: (reason) => serveWaiting(beginning, reason),
    });
    if (release === null) {
      logger.info(`${await signal}: vipnat stops. It waited for another agent, and wrote nothing`);
      return exitStatuses.done;
    }
    return await serve(beginning, signal).finally(release);
  } finally {
    heartbeat?.stop();
  }
}

/**
 * V8's flags, however vipnat is started. Polls and looks leave garbage all the time: V8 would rather let the heap grow to twice the size
 * than look. Its optimizing compilers take 12 MB and more, and an agent mostly waits (ADR 30). Set late: ready-made code is refused where
 * these are on the command line.
 */
const memoryFlags = [...['--max-semi-space-size=1', '--optimize-for-size'], ...['--no-opt', '--no-maglev']];

/** Once it is the host's agent: until the signal. */
async function serve(
  { config, info, answers, logger, metrics, pod, loop }: Beginning,
  signal: Promise<NodeJS.Signals>,
): Promise<number> {
  const clock = systemClock;
  const meter = metrics?.meter ?? silentMeter;
  const warn = ({ message, code }: VipnatError) => {
    logger.warn(message, { code });
    meter.count('vipnat_failures_total', { code });
  };
  const kernel = createKernel({ onProblem: warn });
  const apiserver = createApiserver({
    clock,
    findAuthority: () => findAuthority(config.caFile),
    readCredentials: createCredentialsReader(findAccess(config.kubeconfig, process.env), clock),
    onNoDrainCheck: () => {
      logger.warn(noDrainCheck);
    },
  });
  const store = createEndpointStore(config.stateDir);
  const drain = { store: createDrainStore(config.stateDir), rule: createDrainRule() };
  const memory = { ...emptyState, ...(await recallApiservers(store, warn)) };
  const { followApi, events, stopEvents } = connectApi(config, logger, meter);
  const trackFile = createTrackFile(locateServingFile(config.runDir));
  const files = { store, drain, trackFile, notices: new Fifo(locateNotices(config.runDir)) };
  const effects = { kernel, apiserver, clock, logger, meter, events };
  const ports = { ...effects, ...files, ...createQuestions(clock), followApi, tickMs: readTick(process.env) };
  const agent = new Agent(ports, config, memory);
  loop.behindMs = () => agent.behindMs;
  for (const [path, answer] of listAnswers(agent, config)) answers.set(path, answer);
  const pages = metrics && createAgentPages({ agent, info, metrics, kernel, clock, config, pod });
  const server = pages && createServer(config, pages, { logger, warn });
  try {
    logger.info(`vipnat ${info.version} runs, pid ${info.pid}`);
    sayAuthority(config, logger);
    await server?.start();
    agent.start();
    logger.info(`${await signal}: vipnat stops. Its rules stay (vipnat cleanup removes them)`);
    await agent.stop();
    await stopEvents();
    return exitStatuses.done;
  } finally {
    await server?.stop();
  }
}

/** What the agent asks of this host and of its network. */
function createQuestions(
  clock: Clock,
): Pick<AgentPorts, 'askProxyMode' | 'askProxyAbsence' | 'readListening' | 'askOtherHolder'> {
  return {
    askProxyMode,
    askProxyAbsence: createProxyAbsence(clock),
    readListening: readListeningAddresses,
    askOtherHolder: (question) => askOtherHolder(question, clock),
  };
}

/** What an agent has before it is the host's. */
interface Beginning extends WaitingAgent {
  readonly answers: Map<string, () => object>;
  /** For how long the loop is behind: as of PageSources. */
  readonly loop: { behindMs: () => number };
}

/** What commands ask of it. */
function listAnswers(agent: Agent, config: Config): readonly (readonly [string, () => object])[] {
  return [
    [drainPath, () => toDrainAnswer(agent.checkDrain())],
    [healthPath, () => toHealthAnswer(agent.health)],
    [apiPath, () => agent.apiWord],
    [activityPath, () => agent.activity],
    [optionsPath, () => toOptionsAnswer(config)],
  ];
}

/** The server of `--listen`; null where it is off. */
function createServer(
  { listen }: Config,
  pages: ReadonlyMap<string, Page>,
  { logger, warn }: { readonly logger: Logger; readonly warn: (problem: VipnatError) => void },
): StatusServer | null {
  if (listen === null) return null;
  return new StatusServer({
    endpoint: listen,
    pages,
    clock: systemClock,
    onProblem: warn,
    onRecovered: (endpoint) => {
      logger.info(`vipnat now serves /metrics, /healthz, /readyz and /status at ${formatEndpoint(endpoint)}`);
    },
  });
}

interface ApiParts {
  readonly followApi: (onChange: () => void) => FollowedApi;
  readonly events: EventRecorder;
  readonly stopEvents: () => Promise<void>;
}

/** The source that follows the Kubernetes API, and who writes events there; where there are no credentials neither does anything. */
function connectApi(config: Config, logger: Logger, meter: Meter): ApiParts {
  const route = findRoute(config);
  if (route === null) {
    return { followApi: () => noApi, events: noEvents, stopEvents: () => Promise.resolve() };
  }
  const common = { route, clock: systemClock, random: systemRandom };
  const report = new ApiLog(logger, systemClock, meter);
  const events = new EventWriter({ ...common, logger, node: nameNode(config) });
  return {
    followApi: (onChange) => new WatchedApi({ ...common, report, onChange }),
    events,
    stopEvents: () => events.stop(),
  };
}

const noDrainCheck =
  'vipnat does not see drained masters: it may not connect from ports below 1024 (CAP_NET_BIND_SERVICE is missing)';

/** A probe sends no secret, so a stranger learns nothing; but it may be taken for an apiserver. */
function sayAuthority({ caFile }: Config, logger: Logger): void {
  const authority = findAuthority(caFile);
  if (authority === null) {
    logger.warn(
      "vipnat found no CA of the cluster, so it does not verify the apiservers' certificates (--ca-file names a CA)",
    );
  } else {
    logger.debug(`vipnat verifies apiservers with ${authority.file}`);
  }
}

/** A death is answered in milliseconds also where everybody else wants the processor; looking takes a third of one at most. */
function raisePriority(logger: Logger): void {
  try {
    setPriority(constants.priority.PRIORITY_ABOVE_NORMAL);
  } catch {
    logger.debug('vipnat runs at ordinary priority: CAP_SYS_NICE would raise it');
  }
}
