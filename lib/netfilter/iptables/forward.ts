import { isOwnRule } from './identity.ts';
import { parseRule } from './rule.ts';
import { type Ruleset } from './ruleset.ts';

/**
 * Whether others drop packets on their way through this host in these tables: by the policy of filter FORWARD or
 * a rule right there. No other table can overrule that: what is balanced has to be accepted in this one.
 */
export function dropsForwarded({ tables, forwardPolicy }: Ruleset): boolean {
  if (forwardPolicy === 'DROP') return true;
  const rules = tables.get('filter')?.get('FORWARD') ?? [];
  return rules.some((text) => !isOwnRule(text) && /^(?:DROP|REJECT)$/.test(parseRule(text).target ?? ''));
}
