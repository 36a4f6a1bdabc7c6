import { findErrorCode } from '../../lib/text/errors.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';

/** Says once that connections cannot be counted, and once that they can be again: null. */
export function createWeightsLog(logger: Logger): (error: unknown) => void {
  return (error) => {
    if (error === null) {
      logger.info('vipnat counts open connections again: apiservers with fewer get more new ones');
      return;
    }
    const text = error instanceof Error ? error.message : 'an unknown error';
    logger.warn(
      `vipnat cannot count open connections: ${text}. Until it can, each apiserver gets as many new connections`,
      { code: findErrorCode(error) },
    );
  };
}
