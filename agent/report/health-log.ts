import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { formatAge } from '../../lib/text/age.ts';
import { type EventReason } from '../../lib/telemetry/reasons.ts';
import { type EventRecorder } from '../../lib/telemetry/recorder.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { type DepartureListener } from '../health/departures.ts';
import { endVerdict, isEndLasting } from '../health/end.ts';
import { type EndpointHealth, type UnconfirmedFailure } from '../health/endpoint-health.ts';
import { saysLivenessOnly } from '../health/summary.ts';

/**
 * What became of one apiserver's health, as log lines: one for each fall and return, the steps between only at level
 * debug. Falls and returns become events too.
 */
export class HealthLog implements DepartureListener {
  readonly #logger: Logger;
  readonly #events: EventRecorder;
  readonly #endpointToFall = new Map<string, number>();
  /** Apiservers whose process looks ended, to the line that tells of it. */
  readonly #endpointToEnd = new Map<string, string>();
  readonly #suspected = new Set<string>();
  #isLivenessSaid = false;

  constructor(logger: Logger, events: EventRecorder) {
    this.#logger = logger;
    this.#events = events;
  }

  /** After any change of a state, or of a failure that nobody confirms, or when an end has lasted. */
  say(before: EndpointHealth, after: EndpointHealth): void {
    const isNewlyDrained = after.isDrained && !before.isDrained;
    if (before.state !== after.state || isNewlyDrained) this.#sayState(before, after);
    if (before.unconfirmedFailure === null && after.unconfirmedFailure !== null)
      this.#saySuspicion(after, after.unconfirmedFailure);
    if (before.unconfirmedFailure !== null && after.unconfirmedFailure === null) this.#sayCleared(after);
    if (isEndLasting(after)) this.#sayEnd(formatEndpoint(after.endpoint), after.state);
    if (saysLivenessOnly(after)) this.#sayLiveness(after);
  }

  /** One is listed no more: what comes when it is again is a new story. */
  forget({ endpoint }: EndpointHealth): void {
    const name = formatEndpoint(endpoint);
    this.#endpointToFall.delete(name);
    this.#endpointToEnd.delete(name);
    if (this.#suspected.delete(name) && this.#suspected.size === 0)
      this.#logger.info(`${name} is no longer listed. No other apiserver is suspected`);
  }

  departed(endpoint: Endpoint, connections: number): void {
    const [noun, pronoun] = connections === 1 ? ['connection', 'it ends'] : ['connections', 'they end'];
    this.#logger.info(
      `${formatEndpoint(endpoint)} is no longer listed, but has ${connections} open ${noun}. vipnat probes it until ${pronoun}`,
    );
  }

  ended(text: string): void {
    this.#logger.debug(`vipnat no longer probes ${text} because of its connections`);
  }

  /** One cause often affects several apiservers: the first is logged as a warning, and the end once none is left. */
  #saySuspicion({ endpoint }: EndpointHealth, { reason }: UnconfirmedFailure): void {
    const name = formatEndpoint(endpoint);
    this.#logger[this.#suspected.size === 0 ? 'warn' : 'debug'](
      `${name} is suspected: ${reason}. The apiserver stays in use`,
    );
    this.#suspected.add(name);
  }

  #sayCleared({ endpoint, state }: EndpointHealth): void {
    const name = formatEndpoint(endpoint);
    this.#suspected.delete(name);
    if (state !== 'ready') return;
    this.#logger[this.#suspected.size === 0 ? 'info' : 'debug'](
      `${name} is no longer suspected: it answers again`,
    );
  }

  /** Once: a cluster has it for all of its apiservers, and for good. */
  #sayLiveness({ endpoint, history }: EndpointHealth): void {
    if (this.#isLivenessSaid) return;
    this.#isLivenessSaid = true;
    this.#logger.warn(
      `${formatEndpoint(endpoint)}: ${String(history.livenessOnly)}. So vipnat sees whether apiservers live, and not whether they are ready (--kubeconfig names credentials)`,
    );
  }

  /** A refused connect mostly follows within milliseconds: then the death says it all. */
  #sayEnd(name: string, state: EndpointHealth['state']): void {
    const line = this.#endpointToEnd.get(name);
    this.#endpointToEnd.delete(name);
    if (line !== undefined && state !== 'dead') this.#sayFall('draining', line);
  }

  #sayFall(state: 'dead' | 'draining', line: string): void {
    this.#logger.info(line);
    this.#events.record(fallToReason[state], line);
  }

  #sayState(before: EndpointHealth, { endpoint, state, reason, since, isDrained }: EndpointHealth): void {
    const name = formatEndpoint(endpoint);
    const fellAt = this.#endpointToFall.get(name);
    if (before.state === 'ready') this.#endpointToFall.set(name, since);
    this.#sayEnd(name, state);
    if (state === 'ready') {
      this.#endpointToFall.delete(name);
      const age = fellAt === undefined ? '' : ` again after ${formatAge(since - fellAt)}`;
      const line = `${name} is ready${age} (${reason})`;
      this.#logger.info(line);
      this.#events.record('ApiserverReady', line);
      return;
    }
    const line = `${name} is ${state}: ${reason}`;
    if (reason === endVerdict.reason) {
      this.#endpointToEnd.set(name, line);
      return;
    }
    // The host of one that was dead may be drained still, after its reboot.
    if (state === 'warming' || (before.state !== 'ready' && state === 'draining' && !isDrained)) {
      this.#logger.debug(line);
      return;
    }
    this.#sayFall(state, line);
  }
}

const fallToReason: Readonly<Record<'dead' | 'draining', EventReason>> = {
  dead: 'ApiserverDead',
  draining: 'ApiserverDraining',
};
