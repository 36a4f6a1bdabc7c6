import { type Logger } from '../../lib/telemetry/logger.ts';
import { type Drain } from '../../lib/files/drain-store.ts';
import { type VipnatError } from '../../lib/text/errors.ts';

/** Notified of what becomes of a drain. */
export interface DrainListener {
  /** This host is drained: at the start, when it begins, and once a day. */
  drained(drain: Drain): void;
  /** No other host has taken a VIP that this one gave up: it may hold the VIPs again until the drain ends. */
  vipStays(vip: string): void;
  /** It is drained no longer. */
  undrained(): void;
  /** The rule was written, or removed: another program had changed it, or the first time. */
  drainRuleWritten(ports: readonly number[]): void;
  /** The file or the rule cannot be read or written, for the first time in a row. */
  drainFailed(problem: VipnatError): void;
}

/** What becomes of this host's drain, as log lines. */
export class DrainLog implements DrainListener {
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  drained({ since, vipStaysSince }: Drain): void {
    const vip = vipStaysSince === null ? 'the VIP leaves' : 'the VIP may stay, because no other host took it';
    this.#logger.warn(
      `this host is drained since ${since.toISOString()}: its apiserver gets no new connections, and ${vip}. vipnat undrain ends that`,
    );
  }

  vipStays(vip: string): void {
    this.#logger.warn(
      `no other host has taken ${vip}: this host may hold it until vipnat undrain. vipnat doctor says what to do`,
    );
  }

  undrained(): void {
    this.#logger.info('this host is no longer drained');
  }

  drainRuleWritten(ports: readonly number[]): void {
    this.#logger.info(
      ports.length === 0
        ? 'removed the table vipnat-drain: drain checks are accepted'
        : `wrote the table vipnat-drain: drain checks at port ${ports.join(', ')} are refused`,
    );
  }

  drainFailed({ message, code }: VipnatError): void {
    this.#logger.warn(message, { code });
  }
}
