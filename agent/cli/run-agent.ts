import { constants, setPriority } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { type VipnatError } from '../../lib/errors.ts';
import { systemClock } from '../../lib/kernel/clock.ts';
import { systemRandom } from '../../lib/kernel/random.ts';
import { createKernel } from '../../lib/kernel/kernel.ts';
import { Agent } from '../agent.ts';
import { type Config } from '../config/config.ts';
import { ApiReport } from '../discovery/api/report.ts';
import { WatchedApi } from '../discovery/api/watched-api.ts';
import { type FollowedApi, noApi } from '../discovery/api/cluster-api.ts';
import { recallEndpoints } from '../discovery/endpoint-keeper.ts';
import { createEndpointStore } from '../discovery/endpoint-store.ts';
import { askProxyMode } from '../discovery/proxy-mode.ts';
import { findAuthority } from '../../lib/certificates/authority.ts';
import { createApiserver } from '../health/probe-connections.ts';
import { activityPath } from '../http/agent-activity.ts';
import { apiPath, toApiAnswer } from '../http/agent-api.ts';
import { healthPath, toHealthAnswer } from '../http/agent-health.ts';
import { type AgentInfo, claimPresence } from '../http/presence.ts';
import { createLogger, type Logger } from '../log/logger.ts';
import { emptyMemory } from '../memory.ts';
import { findRoute } from './host.ts';

/**
 * The agent: runs until SIGTERM or SIGINT. The rules stay when it ends (I8); only `cleanup` removes them.
 * @throws VipnatError AGENT_ALREADY_RUNNING
 */
export async function runAgent(config: Config, info: AgentInfo): Promise<number> {
  // Polls and looks leave garbage all the time. V8 would rather let the heap grow to twice the size than look.
  for (const flag of ['--max-semi-space-size=1', '--optimize-for-size']) setFlagsFromString(flag);
  const logger = await createLogger(config);
  raisePriority(logger);
  const clock = systemClock;
  const warn = ({ message, code }: VipnatError) => {
    logger.warn(message, { code });
  };
  const kernel = createKernel({ onProblem: warn });
  const apiserver = createApiserver(clock, () => findAuthority(config.caFile));
  const store = createEndpointStore(config.stateDir);
  const memory = { ...emptyMemory, endpoints: await recallEndpoints(store, warn) };
  const followApi = (onChange: () => void) => createFollowedApi(config, logger, onChange);
  const ports = { kernel, apiserver, clock, logger, askProxyMode, store, followApi };
  const agent = new Agent(ports, config, memory);
  const answers = new Map([
    [healthPath, () => toHealthAnswer(agent.health)],
    [apiPath, () => toApiAnswer(agent.apiView)],
    [activityPath, () => agent.activity],
  ]);
  const release = await claimPresence(info, answers);
  try {
    logger.info(`vipnat ${info.version} runs, pid ${info.pid}`);
    sayAuthority(config, logger);
    const signal = waitForSignal();
    agent.start();
    logger.info(`${await signal}: stopping; the rules stay (vipnat cleanup removes them)`);
    await agent.stop();
    return 0;
  } finally {
    await release();
  }
}

/** The source that follows the Kubernetes API; one that does nothing where there are no credentials. */
function createFollowedApi(config: Config, logger: Logger, onChange: () => void): FollowedApi {
  const route = findRoute(config);
  if (route === null) return noApi;
  const report = new ApiReport(logger, systemClock);
  return new WatchedApi({ route, clock: systemClock, random: systemRandom, report, onChange });
}

/** A probe sends no secret, so a stranger learns nothing; but it may be taken for an apiserver. */
function sayAuthority({ caFile }: Config, logger: Logger): void {
  const authority = findAuthority(caFile);
  if (authority === null) {
    logger.warn('no CA of the cluster is here: apiservers are probed without verifying them (--ca-file)');
  } else {
    logger.debug(`apiservers are verified by ${authority.file}`);
  }
}

/** A death is answered in milliseconds also where everybody else wants the processor; looking takes a third of one at most. */
function raisePriority(logger: Logger): void {
  try {
    setPriority(constants.priority.PRIORITY_ABOVE_NORMAL);
  } catch {
    logger.debug('runs at ordinary priority: CAP_SYS_NICE would raise it');
  }
}

function waitForSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    // Not `once`: execa's clean-up ends the process when it finds itself the last listener (signal-exit 4).
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.on(name, resolve);
  });
}
