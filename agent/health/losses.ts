import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { type EndpointHealth } from './endpoint-health.ts';
import { lossWindowMs } from './silence.ts';

/** When apiservers lost their open connections lately. One that is gone leaves the list within seconds, and may come back to it. */
export class Losses {
  readonly #textToAt = new Map<string, number>();

  /** To be told how these are. */
  note(some: readonly EndpointHealth[], now: number): void {
    for (const { endpoint, staleAt } of some)
      if (staleAt !== -Infinity) this.#textToAt.set(formatEndpoint(endpoint), staleAt);
    for (const [text, at] of this.#textToAt) if (now - at >= lossWindowMs) this.#textToAt.delete(text);
  }

  /** When this one did; -Infinity for not lately. */
  of(endpoint: Endpoint): number {
    return this.#textToAt.get(formatEndpoint(endpoint)) ?? -Infinity;
  }

  /** When any but these did. */
  besides(some: readonly EndpointHealth[]): number[] {
    const texts = new Set(some.map(({ endpoint }) => formatEndpoint(endpoint)));
    return [...this.#textToAt].flatMap(([text, at]) => (texts.has(text) ? [] : [at]));
  }
}
