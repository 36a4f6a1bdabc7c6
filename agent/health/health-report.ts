import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { type Logger } from '../log/logger.ts';
import { type EndpointHealth } from './endpoint-health.ts';

/** What became of one apiserver's health, as log lines: one for each fall and return, the steps between only at level debug. */
export class HealthReport {
  readonly #logger: Logger;
  readonly #endpointToFall = new Map<string, number>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** After any change of a state or suspicion. */
  say(before: EndpointHealth, after: EndpointHealth): void {
    if (before.state !== after.state) this.#sayState(before, after);
    if (before.suspicion === null && after.suspicion !== null) {
      this.#logger.warn(`${formatEndpoint(after.endpoint)}: ${after.suspicion.reason}; it stays in use`);
    }
    if (before.suspicion !== null && after.suspicion === null && after.state === 'ready') {
      this.#logger.info(`${formatEndpoint(after.endpoint)} answers as it should again`);
    }
  }

  #sayState(before: EndpointHealth, { endpoint, state, reason, since }: EndpointHealth): void {
    const name = formatEndpoint(endpoint);
    const fellAt = this.#endpointToFall.get(name);
    if (before.state === 'ready') this.#endpointToFall.set(name, since);
    if (state === 'ready') {
      this.#endpointToFall.delete(name);
      const age = fellAt === undefined ? '' : ` again after ${formatAge(since - fellAt)}`;
      this.#logger.info(`${name} is ready${age} (${reason})`);
      return;
    }
    const isStep = state === 'warming' || (before.state !== 'ready' && state === 'draining');
    this.#logger[isStep ? 'debug' : 'info'](`${name} is ${state}: ${reason}`);
  }
}

/** `0.3 s`, `12 s`, `8m33s`, `2h05m`. */
function formatAge(ms: number): string {
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  const pad = (count: number) => String(count).padStart(2, '0');
  return minutes < 60
    ? `${minutes}m${pad(seconds % 60)}s`
    : `${Math.floor(minutes / 60)}h${pad(minutes % 60)}m`;
}
