import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { findErrorCode } from '../../lib/text/errors.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { type RouteChange } from '../decide/source-routes.ts';
import { type LocalClientListener } from './loop-observer.ts';

/** Says in the log what is done for this host's own connections to a VIP; a trouble once while it lasts. */
export class LocalClientsLog implements LocalClientListener {
  readonly #logger: Logger;
  #problem = '';

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  sourceRouteChanged({ kind, route: { address, source }, reason }: RouteChange): void {
    const what =
      kind === 'add'
        ? `local clients now connect to ${address} from ${source}`
        : `vipnat removed the local route of ${address} with the source ${source}`;
    this.#logger.info(`${what}: ${reason}`);
  }

  ownConnectionsEnded(vip: Endpoint, count: number): void {
    const connections = `${count} stale connection${count === 1 ? '' : 's'} of local clients`;
    this.#logger.info(`${vip.address} left this node: vipnat ended ${connections} to ${formatEndpoint(vip)}`);
  }

  localClientsKept(): void {
    this.#problem = '';
  }

  localClientsNotKept(error: unknown): void {
    const text = error instanceof Error ? error.message : String(error);
    if (this.#problem === text) return;
    this.#problem = text;
    this.#logger.warn(`${text}. Connections of local clients may hang when a VIP leaves this node`, {
      code: findErrorCode(error),
    });
  }
}
