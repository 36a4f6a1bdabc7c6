import { type Endpoint } from '../address/endpoint.ts';
import { systemClock } from '../control/clock.ts';
import { type Page } from './page.ts';
import { StatusServer } from './status-server.ts';
import { type Logger } from '../telemetry/logger.ts';

/** The server of a program of Services: a port that it cannot have is logged, and tried again. */
export function createProbeServer(
  endpoint: Endpoint,
  pages: ReadonlyMap<string, Page>,
  logger: Logger,
): StatusServer {
  return new StatusServer({
    endpoint,
    pages,
    clock: systemClock,
    onProblem: ({ message, code }) => {
      logger.warn(message, { code });
    },
    onRecovered: () => {
      logger.info('vipnat now serves /metrics, /healthz and /readyz');
    },
  });
}
