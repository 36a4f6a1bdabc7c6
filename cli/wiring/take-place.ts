import { type Config } from '../../config/config.ts';
import { systemClock } from '../../lib/control/clock.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { type Metrics } from '../../lib/telemetry/prometheus.ts';
import { awaitPresence } from '../../agent/http/await-presence.ts';
import { type AgentInfo, type Answers, type Release } from '../../agent/http/presence.ts';
import { StatusServer } from '../../lib/http/status-server.ts';
import { createWaitingPages } from './agent-pages.ts';

/** What an agent that may have to wait needs. */
export interface PlaceOptions {
  readonly config: Config;
  readonly info: AgentInfo;
  readonly answers: Answers;
  readonly logger: Logger;
  /** Null where nothing is served. */
  readonly metrics: Metrics | null;
  readonly pod: string | null;
  /** Ends the wait. */
  readonly signal: AbortSignal;
}

/**
 * Becomes the agent of this host's network, after the one that is it now, if any. Writes nothing meanwhile. Answers what
 * gives the place back; null where the signal came first.
 */
export async function takePlace(options: PlaceOptions): Promise<Release | null> {
  const { info, answers, logger, signal } = options;
  let waiting: { readonly server: StatusServer | null; readonly since: number } | null = null;
  let reason = '';
  const onHolder = (holder: AgentInfo | null) => {
    reason = describeWait(holder);
    logger.warn(reason, { code: 'AGENT_ALREADY_RUNNING' });
    waiting ??= { server: serveWaiting(options, () => reason), since: systemClock.now() };
  };
  const release = await awaitPresence(info, answers, { clock: systemClock, signal, onHolder });
  const waited = waiting as { readonly server: StatusServer | null; readonly since: number } | null;
  await waited?.server?.stop();
  if (release !== null && waited !== null) {
    const seconds = ((systemClock.now() - waited.since) / 1000).toFixed(1);
    logger.info(`vipnat takes over from the agent that ended, after ${seconds} s`);
  }
  return release;
}

/** Its process id is its own: it may run in another pid namespace. */
function describeWait(holder: AgentInfo | null): string {
  const find = "ss -xlp 'src *vipnat-agent*' on the host finds it";
  return holder === null
    ? `waiting for another process, which listens on vipnat's socket in this network namespace and does not answer (${find}). vipnat writes nothing until that process ends`
    : `waiting for another agent of this host to end: vipnat ${holder.version}, since ${holder.since}, pid ${holder.pid} in its pid namespace (${find}). vipnat writes nothing until then`;
}

/** Most often the other agent has the port, and answers there for both. */
function serveWaiting(
  { config: { listen }, info, metrics, pod, logger }: PlaceOptions,
  reason: () => string,
): StatusServer | null {
  if (listen === null || metrics === null) return null;
  const server = new StatusServer({
    endpoint: listen,
    pages: createWaitingPages({ info, metrics, pod }, reason),
    clock: systemClock,
    onProblem: ({ message, code }) => {
      logger.debug(message, { code });
    },
    onRecovered: () => undefined,
  });
  void server.start();
  return server;
}
