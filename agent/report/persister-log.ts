import { type PersisterListener } from '../endpoints/endpoint-persister.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { type LoopMetrics } from './loop-metrics.ts';

/** What becomes of the state file, as log lines and as counts of failures. */
export function createPersisterLog(logger: Logger, metrics: LoopMetrics): PersisterListener {
  return {
    notSaved: (problem) => {
      logger.warn(problem.message, { code: problem.code });
      metrics.failure(problem);
    },
    savedAgain: (location) => {
      logger.info(`vipnat can write ${location} again`);
    },
    lost: (location) => {
      logger.warn(`another program removed or changed ${location}. vipnat writes the file again`);
    },
  };
}
