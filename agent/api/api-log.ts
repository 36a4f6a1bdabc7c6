import { VipnatError } from '../../lib/text/errors.ts';
import { type Clock } from '../../lib/control/clock.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { type Meter, silentMeter } from '../../lib/telemetry/meter.ts';
import { describeUnreadable, type Unreadable } from '../../lib/kubernetes/errors.ts';
import { type Connection } from '../../lib/kubernetes/route.ts';
import { formatServer } from '../../lib/kubernetes/servers.ts';

/** What becomes of following the API, as log lines: one when it is lost and one when it is back, whatever is wrong in between. */
export class ApiLog {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #meter: Meter;
  #lostAt: number | null = null;
  #isServiceRefused = false;

  constructor(logger: Logger, clock: Clock, meter: Meter = silentMeter) {
    this.#logger = logger;
    this.#clock = clock;
    this.#meter = meter;
  }

  /** Nobody has answered as they should. */
  lost({ message, code }: VipnatError, isKnown: boolean): void {
    const what = `vipnat cannot follow the Kubernetes API: ${message}`;
    if (this.#lostAt !== null) {
      this.#logger.debug(what, { code });
      return;
    }
    this.#lostAt = this.#clock.now();
    this.#meter.count('vipnat_failures_total', { code });
    const next = isKnown
      ? 'The apiservers that the API last named stay in use'
      : 'vipnat uses other sources of apiservers';
    this.#logger.warn(`${what}. ${next}. vipnat keeps trying`, { code });
  }

  /** The one object of a kind cannot be read: what it said before counts, if it said anything. */
  unreadable(kind: string, unreadable: Unreadable): void {
    this.#meter.count('vipnat_failures_total', { code: 'API_ANSWER_UNEXPECTED' });
    this.#logger.warn(describeUnreadable(kind, unreadable), { code: 'API_ANSWER_UNEXPECTED' });
  }

  /** Told whenever the EndpointSlice is followed: why the Service may not be read beside it, or null when it may. */
  serviceRefused(problem: VipnatError | null): void {
    if (this.#isServiceRefused === (problem !== null)) return;
    this.#isServiceRefused = problem !== null;
    if (problem === null) {
      this.#logger.info('vipnat can read the Service kubernetes from the API again');
      return;
    }
    const { message, code } = refuseService(problem);
    this.#logger.warn(message, { code });
  }

  /** Everything is followed, for the first time or again. */
  followed({ access, server }: Connection): void {
    const again = this.#lostAt === null ? '' : ` again after ${formatAge(this.#clock.now() - this.#lostAt)}`;
    this.#lostAt = null;
    this.#logger.info(`vipnat follows the API at ${formatServer(server)}${again} (${access.origin})`);
  }
}

/** That the Service may not be read, from the answer that said so, with what follows. */
export function refuseService(refusal: VipnatError): VipnatError {
  const { code, message } = refusal;
  return new VipnatError(
    code,
    `vipnat may not read the Service kubernetes: ${message}. It follows the apiservers nevertheless. Session affinity and the ClusterIP come from kube-proxy and --cluster-ip`,
    { cause: refusal },
  );
}

function formatAge(ms: number): string {
  return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
}
