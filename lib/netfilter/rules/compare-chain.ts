import { type Drift } from './drift.ts';

/** A rule ready to be written. */
export interface SignedRule {
  /** The comment that it is known by, see signChain. */
  readonly id: string;
  /** The rule's text, without what names its chain. */
  readonly text: string;
}

/**
 * Whether a tool is known to print the rule with this id in this way, though it reads differently from what
 * was written. Learnt from what it prints right after our own write.
 */
export type IsKnownRendering = (id: string, printed: string) => boolean;

/** How the rules of one tool are read. */
export interface RuleLanguage {
  /** The first comment of a printed rule, or null. */
  readonly readComment: (printed: string) => string | null;
  /** Whether a printed rule still says what the rendered one said. */
  readonly hasSameMeaning: (rendered: string, printed: string) => boolean;
  /** Whether any version of vipnat wrote a printed rule. */
  readonly isOwnRule: (printed: string) => boolean;
}

/** A chain of ours as it should be and as it is. */
export interface Comparison {
  readonly chain: string;
  readonly wanted: readonly SignedRule[];
  readonly seen: readonly string[];
  readonly isKnownRendering: IsKnownRendering;
}

/** How the rules of a chain of ours differ from the wanted ones, in content or order. Empty when they do not. Pure. */
export function compareChain(
  { chain, wanted, seen, isKnownRendering }: Comparison,
  language: RuleLanguage,
): Drift[] {
  const isGood = (rule: SignedRule, printed: string) => isIntact(rule, printed, isKnownRendering, language);
  const isSame =
    seen.length === wanted.length && wanted.every((rule, index) => isGood(rule, seen[index] ?? ''));
  if (isSame) return [];
  const idToWanted = new Map(wanted.map((rule) => [rule.id, rule]));
  const unwanted = seen.flatMap((printed) => {
    const rule = idToWanted.get(language.readComment(printed) ?? '');
    if (rule === undefined) return [describeStranger(chain, printed, language.isOwnRule(printed))];
    return isGood(rule, printed) ? [] : [describeEdited(chain, printed, rule.id)];
  });
  const seenIds = new Set(seen.map((printed) => language.readComment(printed)));
  const missing = wanted.filter(({ id }) => !seenIds.has(id));
  const drift = [...unwanted, ...missing.map(({ text }) => describeMissing(chain, text))];
  // The same rules in another order or more than once.
  return drift.length > 0
    ? drift
    : [{ kind: 'edited-rule', chain, message: `the rules of ${chain} were reordered` }];
}

/** Whether a printed rule is the signed one, unedited. */
export function isIntact(
  { id, text }: SignedRule,
  printed: string,
  isKnownRendering: IsKnownRendering,
  language: RuleLanguage,
): boolean {
  return (
    language.hasSameMeaning(text, printed) ||
    (language.readComment(printed) === id && isKnownRendering(id, printed))
  );
}

function describeEdited(chain: string, rule: string, id: string): Drift {
  return { kind: 'edited-rule', chain, rule, id, message: `a rule of ${chain} was edited: ${rule}` };
}

function describeStranger(chain: string, rule: string, isOurs: boolean): Drift {
  return isOurs
    ? { kind: 'outdated-rule', chain, rule, message: `${chain} holds an older rule: ${rule}` }
    : { kind: 'strange-rule', chain, rule, message: `a foreign rule is in ${chain}: ${rule}` };
}

function describeMissing(chain: string, rule: string): Drift {
  return { kind: 'missing-rule', chain, rule, message: `${chain} lacks ${rule}` };
}
