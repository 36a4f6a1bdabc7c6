import { type Endpoint, formatEndpoint, parseEndpoint } from '../../address/endpoint.ts';
import { parseAddress } from '../../address/address.ts';
import { vipChainName } from '../balance.ts';
import { hasSameMeaning } from './meaning.ts';
import { renderNftTable } from './render.ts';
import { type NftTable } from './ruleset.ts';

/**
 * The backends that our own table sends a VIP's connections to, what an agent that is gone last knew. Empty unless
 * the VIP's chain is, to the letter, one that vipnat writes for these backends.
 */
export function readWrittenBackends(table: NftTable | null, vip: Endpoint): readonly Endpoint[] {
  const name = vipChainName(vip);
  const seen = table?.chains.get(name);
  if (table === null || seen === undefined) return [];
  const backends = readChoice(seen.rules.at(-1) ?? '');
  const affinitySeconds = readTimeout([...table.sets], name);
  const written = renderNftTable(vip.family, [{ vip, masquerade: 'own', backends, affinitySeconds }]);
  return areSameRules(written?.chains.get(name)?.rules ?? [], seen.rules) ? backends : [];
}

function areSameRules(wanted: readonly string[], seen: readonly string[]): boolean {
  return (
    wanted.length === seen.length && wanted.every((text, index) => hasSameMeaning(text, seen[index] ?? ''))
  );
}

/** The elements of `… map { 0 : 10.0.0.11 . 6443, … }`. */
function readChoice(rule: string): Endpoint[] {
  return [...rule.matchAll(/\d+ : (\S+) \. (\d+)/g)]
    .map(([, text = '', port]) => {
      const address = parseAddress(text);
      if (address === null) return null;
      return parseEndpoint(
        formatEndpoint({ family: address.family, address: address.text, port: Number(port) }),
      );
    })
    .filter((endpoint) => endpoint !== null);
}

function readTimeout(sets: readonly (readonly [string, string])[], chain: string): number | null {
  const [, declaration] = sets.find(([name]) => name.startsWith(`${chain}-`)) ?? [];
  const seconds = /\btimeout (\d+)s\b/.exec(declaration ?? '')?.[1];
  return seconds === undefined ? null : Number(seconds);
}
