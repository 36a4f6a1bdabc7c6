import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { type Assessment } from './assess.ts';
import { type Decision } from './decision.ts';
import { wayToEntry } from './ways.ts';

/** `service-chain`, `direct to 10.0.0.11:6443, 10.0.0.12:6443`, `passthrough`: what changed when this text did. */
export function describeWay(decision: Decision): string {
  return wayToEntry[decision.way].name(decision);
}

/** The ways of all VIPs, and whoever may answer: another text asks for other rules. */
export function describeWanted({
  decisions,
  answerers,
}: Pick<Assessment, 'decisions' | 'answerers'>): string {
  const apiservers = [...answerers.values()].map((endpoints) => endpoints.map(formatEndpoint).join());
  return [...decisions.map(describeWay), ...apiservers].join(';');
}
