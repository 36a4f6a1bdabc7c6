import { type Family } from '../../address/address.ts';
import { type Endpoint, parseEndpoint } from '../../address/endpoint.ts';
import { readWeights, vipChainName, type InstalledBalance } from '../rules/balance.ts';
import { hasSameMeaning } from './meaning.ts';
import { renderInputRules, renderNftTable } from './render.ts';
import { type NftTable } from './ruleset.ts';

/**
 * What our own table does with a VIP's connections, what an agent that is gone last knew. Null unless the VIP's chain
 * is, to the letter, one that vipnat writes for these backends.
 */
export function readInstalled(table: NftTable | null, vip: Endpoint): InstalledBalance | null {
  const name = vipChainName(vip);
  const seen = table?.chains.get(name);
  if (table === null || seen === undefined) return null;
  const backends = readBackends(seen.rules);
  const affinitySeconds = readTimeout(table, name);
  // The rules that choose come last, one for each backend.
  const weights = readWeights(backends, seen.rules.slice(-backends.length).map(readPart));
  const written = renderNftTable(vip.family, [
    { vip, masquerade: 'own', backends, affinitySeconds, weights },
  ]);
  const isOurs = areSameRules(written?.chains.get(name)?.rules ?? [], seen.rules);
  if (!isOurs || backends.length === 0) return null;
  return { backends, affinitySeconds, ...(weights === undefined ? {} : { weights }) };
}

/** The apiservers that our own table's rules about replies name, as `readInstalled` has it. */
export function readApiservers(family: Family, table: NftTable | null): Endpoint[] {
  const seen = table?.chains.get('input')?.rules ?? [];
  const named = seen.flatMap((rule) => {
    const [, address = '', port = ''] = /^ip6? saddr (\S+) .*tcp sport (\d+) /.exec(rule) ?? [];
    return parseEndpoint(family === 'ipv6' ? `[${address}]:${port}` : `${address}:${port}`) ?? [];
  });
  const written = renderInputRules(named);
  return areSameRules(written, seen) ? named : [];
}

/** Of `… numgen random mod 3 0 …`, `… numgen random mod 60 < 25 …`; 1 for a rule without it. */
function readPart(rule: string): number {
  const [, modulus, below] = /\bnumgen random mod (\d+) (?:< (\d+)|0)/.exec(rule) ?? [];
  return modulus === undefined ? 1 : Number(below ?? 1) / Number(modulus);
}

function areSameRules(wanted: readonly string[], seen: readonly string[]): boolean {
  return (
    wanted.length === seen.length && wanted.every((text, index) => hasSameMeaning(text, seen[index] ?? ''))
  );
}

/** Those of `… dnat to 10.0.0.11:6443 …`, each once, in their order. */
function readBackends(rules: readonly string[]): Endpoint[] {
  const texts = rules.flatMap((rule) => /\bdnat (?:ip6? )?to (\S+)/.exec(rule)?.[1] ?? []);
  return [...new Set(texts)].map((text) => parseEndpoint(text)).filter((endpoint) => endpoint !== null);
}

function readTimeout({ sets }: NftTable, chain: string): number | null {
  const [, clients] = [...sets].find(([name]) => name.startsWith(`${chain}-`)) ?? [];
  const seconds = /\btimeout (\d+)s\b/.exec(clients?.declaration ?? '')?.[1];
  return seconds === undefined ? null : Number(seconds);
}
