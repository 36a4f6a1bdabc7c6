import { type Endpoint, parseEndpoint } from '../../address/endpoint.ts';
import { vipChainName } from '../rules/balance.ts';
import { isOwnChain } from './identity.ts';
import { parseRule } from './rule.ts';
import { type Ruleset } from './ruleset.ts';

/**
 * The virtual IPs that have a chain of ours, as rules in our chains name them: also those that no hook leads to now. A
 * virtual IP is named once for each rule. A foreign rule in our chains names none.
 */
export function readVips({ tables }: Pick<Ruleset, 'tables'>): Endpoint[] {
  const all = [...tables.values()].flatMap((table) => [...table]);
  const own = all.filter(([chain]) => isOwnChain(chain));
  const names = new Set(own.map(([chain]) => chain));
  return own
    .flatMap(([, rules]) => rules.map(readVip))
    .filter((vip) => vip !== null)
    .filter((vip) => names.has(vipChainName(vip)));
}

/** Whose connections a rule of a shared chain is about; null for nobody's. */
export function readVip(text: string): Endpoint | null {
  const { options } = parseRule(text);
  const address = options.get('-d')?.replace(/\/(?:32|128)$/, '') ?? options.get('--ctorigdst');
  const port = options.get('--dport') ?? options.get('--ctorigdstport');
  if (address === undefined || port === undefined) return null;
  return parseEndpoint(address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`);
}
