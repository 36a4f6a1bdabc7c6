import { type VipnatError } from '../../../lib/errors.ts';
import { type Clock } from '../../../lib/kernel/clock.ts';
import { type Logger } from '../../log/logger.ts';
import { type Meter, silentMeter } from '../../metrics/meter.ts';
import { type Connection } from './route.ts';
import { formatServer } from './servers.ts';

/** What becomes of following the API, as log lines: one when it is lost and one when it is back, whatever is wrong in between. */
export class ApiReport {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #meter: Meter;
  #lostAt: number | null = null;

  constructor(logger: Logger, clock: Clock, meter: Meter = silentMeter) {
    this.#logger = logger;
    this.#clock = clock;
    this.#meter = meter;
  }

  /** Nobody has answered as they should. */
  lost({ message, code }: VipnatError, isKnown: boolean): void {
    const what = `the API cannot be followed: ${message}`;
    if (this.#lostAt !== null) {
      this.#logger.debug(what, { code });
      return;
    }
    this.#lostAt = this.#clock.now();
    this.#meter.count('vipnat_failures_total', { code });
    const next = isKnown ? 'what it last said stays' : 'the apiservers are known from elsewhere, if at all';
    this.#logger.warn(`${what} (${next}; it is tried again and again)`, { code });
  }

  /** Everything is followed, for the first time or again. */
  followed({ access, server }: Connection): void {
    const again = this.#lostAt === null ? '' : ` again after ${formatAge(this.#clock.now() - this.#lostAt)}`;
    this.#lostAt = null;
    this.#logger.info(`follows the API at ${formatServer(server)}${again} (${access.origin})`);
  }
}

function formatAge(ms: number): string {
  return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
}
