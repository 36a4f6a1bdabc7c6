import type { Config } from '../config/options.ts';
import { setFlagsFromString } from 'node:v8';
import { createLogger, createPodHeartbeat, keepRecent, type Logger } from '../lib/telemetry/log.ts';
import { createMetrics, noMeter, type Meter } from '../lib/telemetry/metrics.ts';
import { waitForSignal, idleClock, systemClock, systemRandom } from '../lib/clock.ts';
import { podVariable, readTick, nameNode } from '../config/load.ts';
import { takePlace, agentRole, type OwnerInfo, acquireRole, findLockOwner } from '../lib/http/singleton.ts';
import { serveWaiting, createAgentPages, type WaitingAgent } from './serve.ts';
import { exitStatuses, version } from '../lib/text.ts';
import { VipnatError } from '../lib/errors.ts';
import { createKernel } from '../lib/kernel/kernel.ts';
import { findAuthority, createDrainStore, Fifo } from '../lib/files.ts';
import { findRoute } from '../lib/kubernetes/route.ts';
import { createEndpointStore, recallApiservers } from './state.ts';
import { createDrainRule } from '../lib/kernel/iptables.ts';
import { emptyState, type Assessment } from './decide/decision.ts';
import { createTrackFile, locateServingFile, locateNotices } from '../lib/keepalived/write.ts';
import { Agent, type AgentPorts } from './agent.ts';
import { askProxyMode, createProxyAbsence } from './observe/kube-proxy.ts';
import { readListeningAddresses, readRights } from '../lib/kernel/host.ts';
import { askDuplicateOwner } from '../lib/kernel/addresses.ts';
import { type AnswerPath, toHealthAnswer, toOptionsAnswer, askAgentActivity } from './ask.ts';
import { type Page, StatusServer } from '../lib/http/pages.ts';
import { formatEndpoint, type Endpoint } from '../lib/net.ts';
import { noApi, ApiLog, WatchedApi } from './api.ts';
import { noEvents, EventWriter } from '../lib/telemetry/events.ts';
import { setPriority, constants } from 'node:os';
import {
  type Notify,
  createPorts,
  recallMemory,
  readHost,
  createHostKernel,
  createHostApiserver,
  type OwnRemoval,
  type DrainRemoval,
  removeOwn,
  leaveOwn,
  removeDrain,
} from './one-shot.ts';
import { converge, WriteBudget } from './sync.ts';
import { observeAndAssess } from './read-host.ts';
import { switchOnForwarding } from './forwarding.ts';
import type { ForwardingListener } from './report/events.ts';
import type { planOffline } from './decide/mode.ts';
import { type HostStatus, readLiveDetails, toHostStatus, viewTrackFile } from './report/status.ts';

/** The agent, until SIGTERM or SIGINT. It waits for another one on this host to end. The rules stay (I8). */
export async function runAgent(config: Config): Promise<number> {
  // A process gets no right back that it lacks: the agent would wait for ever, and balance nothing.
  if (!(await readRights()).hasNetAdmin)
    throw new VipnatError(
      'TOOL_NOT_PERMITTED',
      'the agent is not permitted to write rules: it needs CAP_NET_ADMIN',
    );
  const info = describeSelf();
  for (const flag of memoryFlags) setFlagsFromString(flag);
  const [logger, metrics] = await Promise.all([createLogger(config), config.listen && createMetrics()]);
  raisePriority(logger);
  const ending = new AbortController();
  const signal = waitForSignal().finally(ending.abort.bind(ending));
  const answers = new Map<string, () => object>();
  const pod = process.env[podVariable] ?? null;
  const loop = { behindMs: () => 0 };
  const beginning = { config, info, answers, logger, metrics, pod, loop };
  const heartbeat = createPodHeartbeat(pod, logger, () => loop.behindMs());
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
 * V8's flags, however vipnat is started. Polls and syncs leave garbage all the time: V8 would rather let the heap grow to twice the size
 * than collect it. Its optimizing compilers take 12 MB and more, and an agent mostly waits (ADR 7). Set late: ready-made code is refused where
 * these are on the command line.
 */
const memoryFlags = [...['--max-semi-space-size=1', '--optimize-for-size'], ...['--no-opt', '--no-maglev']];

/** Once it is the host's agent: until the signal. */
async function serve(
  { config, info, answers, logger, metrics, pod, loop }: Beginning,
  signal: Promise<NodeJS.Signals>,
): Promise<number> {
  const clock = systemClock;
  const meter = metrics?.meter ?? noMeter;
  const warn = ({ message, code }: VipnatError) => {
    logger.warn(message, { code });
    meter.count('vipnat_failures_total', { code });
  };
  const kernel = createKernel({ onProblem: warn });
  const apiserver = createHostApiserver(config, logger.warn.bind(logger, noDrainCheck));
  const store = createEndpointStore(config.stateDir);
  const drain = { store: createDrainStore(config.stateDir), rule: createDrainRule() };
  const memory = { ...emptyState, ...(await recallApiservers(store, warn)) };
  const { followApi, events, stopEvents } = connectApi(config, logger, meter);
  const trackFile = createTrackFile(locateServingFile(config.runDir), () => viewTrackFile(config));
  const files = { store, drain, trackFile, notices: new Fifo(locateNotices(config.runDir)) };
  const recent = keepRecent(logger, clock);
  const effects = { kernel, apiserver, clock, logger: recent.logger, meter, events };
  const ports: AgentPorts = {
    ...{ ...effects, ...files, followApi, tickMs: readTick(process.env) },
    askProxyMode,
    askProxyAbsence: createProxyAbsence(clock),
    readListening: readListeningAddresses,
    askDuplicateOwner: (question) => askDuplicateOwner(question, clock),
  };
  const agent = new Agent(ports, config, memory);
  loop.behindMs = () => agent.behindMs;
  for (const [path, answer] of Object.entries(listAnswers(agent, config))) answers.set(path, answer);
  const pages =
    metrics &&
    createAgentPages({ agent, kernel, info, metrics, config, pod, clock: idleClock, lines: recent.lines });
  const server = pages && createServer(config, pages, { logger, warn });
  try {
    logger.info(`vipnat ${info.version} runs, pid ${info.pid}`);
    reportAuthority(config, logger);
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

/** What an agent has before it is the host's. */
interface Beginning extends WaitingAgent {
  readonly answers: Map<string, () => object>;
  /** For how long the loop is behind: as of PageSources. */
  readonly loop: { behindMs: () => number };
}

function listAnswers(agent: Agent, config: Config): Readonly<Record<AnswerPath, () => object>> {
  return {
    '/drain': () => agent.checkDrain(),
    '/health': () => toHealthAnswer(agent.health),
    '/api': () => agent.apiReport,
    '/activity': () => agent.activity,
    '/options': () => toOptionsAnswer(config),
  };
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
      logger.info(
        `vipnat now serves /, /status, /metrics, /healthz and /readyz at ${formatEndpoint(endpoint)}`,
      );
    },
  });
}

/** The source that follows the Kubernetes API, and who writes events there; where there are no credentials neither does anything. */
function connectApi(config: Config, logger: Logger, meter: Meter) {
  const route = findRoute(config);
  if (route === null)
    return { followApi: () => noApi, events: noEvents, stopEvents: () => Promise.resolve() };
  const common = { route, clock: systemClock, random: systemRandom };
  const report = new ApiLog(logger, systemClock, meter);
  const events = new EventWriter({ ...common, logger, node: nameNode(config) });
  return {
    followApi: (onChange: () => void) => new WatchedApi({ ...common, report, onChange }),
    events,
    stopEvents: () => events.stop(),
  };
}

const noDrainCheck =
  'vipnat does not see drained masters: it may not connect from ports below 1024 (CAP_NET_BIND_SERVICE is missing)';

/** A probe sends no secret, so another server learns nothing; but it may be taken for an apiserver. */
function reportAuthority({ caFile }: Config, logger: Logger): void {
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

function describeSelf(): OwnerInfo {
  return { version, pid: process.pid, since: systemClock.date().toISOString() };
}

/** How it was after the last sync of `runOnce`. */
type OneRun = Pick<Assessment, 'decisions' | 'health'> & Pick<HostObservation, 'unread'>;

/**
 * `vipnat run --once`: writes until the rules are in sync, and ends. `notify` gets what is switched on meanwhile.
 * @throws VipnatError AGENT_ALREADY_RUNNING, naming the agent that is there, or what keeps the rules from being written
 */
export async function runOnce(config: Config, notify: Notify): Promise<OneRun> {
  const release = await acquireRole(agentRole, describeSelf(), new Map());
  return await convergeOnce(config, notify).finally(release);
}

async function convergeOnce(config: Config, notify: Notify): Promise<OneRun> {
  const ports = createPorts(config, notify);
  const needs = { ...ports, report: notifyForwarding(notify), budget: new WriteBudget(systemClock) };
  let memory = await recallMemory(config);
  let run: OneRun = { decisions: [], health: new Map(), unread: [] };
  await converge(ports.kernel, async () => {
    let reading = await observeAndAssess(ports, config, memory);
    const changed = await switchOnForwarding(needs, reading.missingSwitches, reading.memory, config);
    if (changed !== null) reading = await observeAndAssess(ports, config, changed);
    memory = reading.memory;
    run = { decisions: reading.decisions, health: reading.health, unread: reading.observation.unread };
    return reading.plan;
  });
  return run;
}

function notifyForwarding(notify: Notify): ForwardingListener {
  return {
    switchedOn: ({ name }) => {
      notify(`${name} was 0, and is 1 now\n`);
    },
    conflict: ({ name }) => {
      notify(`another program keeps setting ${name} to 0\n`);
    },
    notSwitched: ({ code, message }) => {
      notify(`[${code}] ${message}\n`);
    },
  };
}

export { readHost } from './one-shot.ts';
export { drainHost, undrainHost } from './drain.ts';
export { readDiagnosticConfig as readConfigWithAgent } from './ask.ts';

export type {
  Assessment as HostReading,
  Decision as VipDecision,
  MissingSwitch as ClosedSwitch,
  RouteChange as LocalRouteChange,
} from './decide/decision.ts';

/** What was seen of this host. */
export type HostObservation = Assessment['observation'];

/** How one apiserver is, by its probes. */
export type ApiserverHealth = NonNullable<ReturnType<Assessment['health']['get']>>;

/** What a plan is printed from: a reading of the host, or what options alone say. */
export type PlannedRules = ReturnType<typeof planOffline>;

/** How this host is, for `status`. Writes nothing. */
export async function readStatus(config: Config, notify: Notify): Promise<HostStatus> {
  const [reading, agent, activity, drain, findings] = await Promise.all([
    readHost(config, notify),
    findLockOwner(agentRole),
    askAgentActivity(),
    // One that cannot be read drains nobody, and the agent logs it.
    createDrainStore(config.stateDir)
      .load()
      .catch(() => null),
    readLiveDetails(createHostKernel(), config),
  ]);
  return toHostStatus(reading, { agent, activity, drain, ...findings });
}

interface CleanupRequest {
  /** Only what is of these; null for everything of vipnat's. */
  readonly vips: readonly Endpoint[] | null;
  /** Find out what would be removed, and write nothing. */
  readonly dryRun: boolean;
  readonly stateDir: string;
}

/** What became of what an agent has left on this host, or would. */
export interface RulesRemoval extends OwnRemoval {
  /** The agent that runs here, and would write its rules again. */
  readonly agent: OwnerInfo | null;
  readonly drain: DrainRemoval;
}

/** Removes rules, routes and the drain of this host, or only reports them; leaves them to an agent that runs. Host problems never reject. */
export async function cleanUpRules({ vips, dryRun, stateDir }: CleanupRequest): Promise<RulesRemoval> {
  const agent = await findLockOwner(agentRole);
  const isLeft = agent !== null && !dryRun;
  const own = isLeft ? leaveOwn(agent) : await removeOwn(vips, dryRun);
  // A drain is of all virtual IPs, and an agent that runs would keep it.
  const isDrainLeft = isLeft || vips !== null;
  const nothing = { tables: [], files: [], problems: [] };
  return { ...own, agent, drain: isDrainLeft ? nothing : await removeDrain(stateDir, dryRun) };
}
