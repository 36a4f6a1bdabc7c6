import { type Family } from '../../lib/address/address.ts';
import { type HeardVrid } from '../../lib/services/node-report.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { findErrorCode } from '../../lib/text/errors.ts';
import { type HearingListener } from './hearing.ts';

/** Says in the log what others do with VRIDs of this node's seats. */
export class HearingLog implements HearingListener {
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  impossible(family: Family, words: string): void {
    this.#logger.info(
      `nft or the kernel cannot note VRRP adverts of ${family}. So vipnat does not notice that others use a VRID of a seat. It tries again every ten minutes`,
      { details: words },
    );
  }

  failed(error: unknown): void {
    const words = error instanceof Error ? error.message : String(error);
    this.#logger.warn(`VRRP adverts of other hosts cannot be read, and are read again soon: ${words}`, {
      code: findErrorCode(error),
    });
  }

  clashes({ vrid, from, device, seat }: HeardVrid): void {
    this.#logger.warn(`${from} on ${device} uses the virtual_router_id ${vrid} of seat ${seat ?? ''}, too`);
  }
}
