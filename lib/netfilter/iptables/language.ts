import { type RuleLanguage } from '../rules/compare-chain.ts';
import { isOwnRule } from './identity.ts';
import { parseRule, type Rule } from './rule.ts';

/** The kernel keeps probabilities as multiples of 2^-31; tools print 11 digits of them (iptables 1.8.2 to 1.8.11). */
const probabilityTolerance = 2 ** -30;

/** How iptables' rules are read. */
export const iptablesLanguage: RuleLanguage = {
  readComment: (printed) => parseRule(printed).comment,
  hasSameMeaning,
  isOwnRule,
};

/**
 * Whether a printed rule still says what the rendered one said. Tools print `/32` and `/128`, add or move `-m`,
 * and round probabilities; all else that differs, also in the comment, is somebody's edit.
 */
export function hasSameMeaning(rendered: string, printed: string): boolean {
  if (rendered === printed) return true;
  const wanted = toMeaning(parseRule(rendered));
  const seen = toMeaning(parseRule(printed));
  return (
    wanted.size === seen.size &&
    [...wanted].every(([option, value]) => isSameValue(option, value, seen.get(option)))
  );
}

function toMeaning({ options }: Rule): Map<string, string> {
  return new Map(
    [...options]
      .filter(([option]) => option !== '-m' && !option.startsWith('-m#'))
      .map(([option, value]) => [option, value.replace(/\/(?:32|128)$/, '')]),
  );
}

function isSameValue(option: string, wanted: string, seen: string | undefined): boolean {
  if (option !== '--probability' || seen === undefined) return wanted === seen;
  return Math.abs(Number(wanted) - Number(seen)) <= probabilityTolerance;
}
