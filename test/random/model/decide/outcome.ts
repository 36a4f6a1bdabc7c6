import { type Decision } from '../../../../agent/decide/decide.ts';
import { formatEndpoint } from '../../../../lib/address/endpoint.ts';

/** What a decision comes to, in a form that is compared at once. */
export interface Outcome {
  readonly way: Decision['way'];
  /** The texts of all, in order. */
  readonly backends: string;
}

/** What a decision of the product's comes to. */
export function toOutcome({ way, backends }: Decision): Outcome {
  return { way, backends: backends.map(formatEndpoint).toSorted().join(' ') };
}
