import { type Endpoint, parseEndpoint } from '../../address/endpoint.ts';
import { vipChainName } from '../rules/balance.ts';
import { type NftRuleset } from './ruleset.ts';

/** The virtual IPs that have a chain in our table, as its rules name them: once for each rule. */
export function readVips({ table }: Pick<NftRuleset, 'table'>): Endpoint[] {
  const chains = table?.chains ?? new Map<string, never>();
  return [...chains.values()]
    .flatMap(({ rules }) => rules.map(readVip))
    .filter((vip) => vip !== null)
    .filter((vip) => chains.has(vipChainName(vip)));
}

/** Whose connections a rule of a shared chain is about; null for nobody's. */
export function readVip(text: string): Endpoint | null {
  const address = /\bip6? daddr (\S+)/.exec(text)?.[1];
  const port = /\b(?:tcp dport|proto-dst) (\d+)/.exec(text)?.[1];
  if (address === undefined || port === undefined) return null;
  return parseEndpoint(address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`);
}
