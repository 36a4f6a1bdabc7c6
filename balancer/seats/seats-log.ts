import { type VrrpState } from '../../lib/keepalived/notices.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { findErrorCode, type VipnatError } from '../../lib/text/errors.ts';
import { type SeatsListener } from './seats-listener.ts';

/** Says in the log what becomes of this node's seats. */
export class SeatsLog implements SeatsListener {
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  held(seat: string, isHeld: boolean): void {
    this.#logger.info(isHeld ? `this node holds seat ${seat}` : `this node no longer holds seat ${seat}`);
  }

  stateChanged(instance: string, state: VrrpState): void {
    this.#logger.debug(`keepalived reports ${state} for ${instance}`);
  }

  inUse(address: string, mac: string | null): void {
    if (mac === null) this.#logger.info(`no other host answers for ${address} any more`);
    else this.#logger.warn(`another host (MAC ${mac}) answers for ${address}: this node does not hold it`);
  }

  leftOut(problem: string): void {
    this.#logger.warn(problem);
  }

  written(): void {
    this.#logger.info('keepalived.conf is replaced');
  }

  refused(words: string | null): void {
    if (words === null) this.#logger.info('keepalived takes the new keepalived.conf');
    else {
      this.#logger.error(
        'keepalived refuses the new keepalived.conf, and continues with the former configuration',
        {
          details: words,
        },
      );
    }
  }

  notChecked(error: unknown): void {
    this.#logger.info(
      `keepalived.conf is not checked before it is used, only by keepalived itself: ${toText(error)}`,
    );
  }

  running(isRunning: boolean): void {
    if (isRunning) this.#logger.info("the balancer's keepalived runs");
    else this.#logger.warn("the balancer's keepalived does not run: this node holds no address");
  }

  changed(isServing: boolean): void {
    if (isServing) this.#logger.info('this node can serve again: keepalived may hold seats');
    else this.#logger.warn('this node can serve no Service: keepalived gives its seats up');
  }

  notWritten(problem: VipnatError): void {
    this.#logger.error(problem.message, { code: problem.code });
  }

  failed(error: unknown): void {
    if (error === null) this.#logger.info('the seats of this node are kept again');
    else {
      this.#logger.error(`the seats of this node cannot be kept: ${toText(error)}. They stay as they are`, {
        code: findErrorCode(error),
      });
    }
  }
}

function toText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
