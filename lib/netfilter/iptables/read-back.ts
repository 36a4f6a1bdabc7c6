import { type Endpoint, parseEndpoint } from '../../address/endpoint.ts';
import { type Balance, readWeights, vipChainName, type InstalledBalance } from '../rules/balance.ts';
import { isIntact } from '../rules/compare-chain.ts';
import { inputChain, type RuleSpec, signRules } from './identity.ts';
import { iptablesLanguage } from './language.ts';
import { dropUntranslated, renderRoute } from './render.ts';
import { parseRule } from './rule.ts';
import { type Table } from './ruleset.ts';

/**
 * What our own rules in the nat table do with a VIP's connections, where they translate: what an agent that is gone last
 * knew. Null unless the VIP's chain is, to the letter, one that vipnat writes for these backends: rules that somebody
 * else put there or edited say nothing.
 */
export function readInstalled(nat: Table | undefined, vip: Endpoint): InstalledBalance | null {
  const seen = nat?.get(vipChainName(vip)) ?? [];
  const options = seen.map((text) => parseRule(text).options);
  const targets = new Set(options.map((option) => option.get('--to-destination') ?? ''));
  const backends = [...targets].map((text) => parseEndpoint(text)).filter((endpoint) => endpoint !== null);
  if (backends.length === 0) return null;
  const seconds = options.map((option) => option.get('--seconds')).find((text) => text !== undefined);
  const affinitySeconds = seconds === undefined ? null : Number(seconds);
  // The rules that choose come last, one for each backend.
  const parts = options.slice(-backends.length).map((option) => Number(option.get('--probability') ?? 1));
  const weights = readWeights(backends, parts);
  const masquerades = ['own', 'kube-mark'] as const;
  const isOurs = masquerades.some((masquerade) =>
    isWritten({ vip, masquerade, route: { kind: 'translate', backends, weights, affinitySeconds } }, seen),
  );
  return isOurs ? { backends, affinitySeconds, ...(weights === undefined ? {} : { weights }) } : null;
}

/** The apiservers that our own rules in the filter table name, as `readInstalled` has it; none where these rules are not intact. */
export function readApiservers(filter: Table | undefined): Endpoint[] {
  const seen = filter?.get(inputChain) ?? [];
  const named = seen.flatMap((text) => {
    const { options } = parseRule(text);
    const address = options.get('-s')?.replace(/\/(?:32|128)$/, '') ?? '';
    return (
      parseEndpoint(`${address.includes(':') ? `[${address}]` : address}:${options.get('--sport') ?? ''}`) ??
      []
    );
  });
  return areWritten(inputChain, named.map(dropUntranslated), seen) ? named : [];
}

function isWritten(balance: Balance, seen: readonly string[]): boolean {
  return areWritten(vipChainName(balance.vip), renderRoute(balance), seen);
}

function areWritten(chain: string, rules: readonly RuleSpec[], seen: readonly string[]): boolean {
  const wanted = signRules(chain, rules);
  return (
    wanted.length === seen.length &&
    wanted.every((rule, index) => isIntact(rule, seen[index] ?? '', () => false, iptablesLanguage))
  );
}
