import { type RuleLanguage } from '../compare-chain.ts';
import { isOwnRule } from './identity.ts';
import { hasSameMeaning } from './meaning.ts';
import { parseRule } from './rule.ts';

/** How iptables' rules are read. */
export const iptablesLanguage: RuleLanguage = {
  readComment: (printed) => parseRule(printed).comment,
  hasSameMeaning,
  isOwnRule,
};
