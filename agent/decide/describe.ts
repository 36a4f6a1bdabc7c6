import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { type Assessment } from './assess.ts';
import { countApiservers, type Decision, isBalanced } from './decision.ts';
import { wayToEntry } from './ways.ts';
import { type Observation } from '../observe/observe.ts';

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

/** `10.0.0.50:6443 is balanced, and its rules are in sync (service-chain, 3 apiservers)`; passthrough is not called balanced. */
export function describeInSync(decision: Decision): string {
  const { vip, way, backends, reason } = decision;
  const name = formatEndpoint(vip);
  return isBalanced(decision)
    ? `${name} is balanced, and its rules are in sync (${way}, ${countApiservers(backends.length)})`
    : `${name} is NOT BALANCED (${way}): ${reason}. Only the VIP holder's own apiserver answers`;
}

/** `kube-proxy: iptables (nft), reported at 127.0.0.1:10249`; in brackets what rules are written to. */
export function describeKubeProxy({
  proxyMode,
  dialect,
}: Pick<Observation, 'proxyMode' | 'dialect'>): string {
  return `kube-proxy: ${proxyMode.value} (${dialect.value}), ${proxyMode.seenIn}`;
}
