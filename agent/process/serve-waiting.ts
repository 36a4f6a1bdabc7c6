import { type Config } from '../../config/config.ts';
import { systemClock } from '../../lib/control/clock.ts';
import { StatusServer } from '../../lib/http/status-server.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { type Metrics } from '../../lib/telemetry/prometheus.ts';
import { createWaitingPages } from './agent-pages.ts';
import { type HolderInfo } from '../../lib/http/singleton.ts';

/** An agent that may have to wait for another one. */
export interface WaitingAgent {
  readonly config: Config;
  readonly info: HolderInfo;
  readonly logger: Logger;
  /** Null where nothing is served. */
  readonly metrics: Metrics | null;
  readonly pod: string | null;
}

/** Serves the pages of an agent that waits; null where nothing is served. Most often the other agent has the port, and answers there for both. */
export function serveWaiting(
  { config: { listen }, info, metrics, pod, logger }: WaitingAgent,
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
