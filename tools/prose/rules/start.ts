import { type FindProblems, locate, quoteStart } from './rule.ts';
import { splitSentences } from './passage.ts';

/** How a relative clause begins, and what to write instead. */
const starts: readonly (readonly [RegExp, string])[] = [
  [/^(?:what|who|whom|whose|which|whoever|whatever|whichever)\b/i, 'begin with the subject'],
  [/^that (?:which|it|they|he|she|its|a|an|the|this|these|no)\b/i, 'begin with the subject, or with "If"'],
  [/^where\b/i, 'begin a condition with "If"'],
  [/^else\b/i, 'begin with "Otherwise"'],
];

/** No sentence begins with a relative clause. A phrase without a full stop is not a sentence, and a question may begin so. */
export const refuseRelativeStarts: FindProblems = (passage) => {
  if (passage.isHeading) return [];
  return splitSentences(passage).flatMap(({ text, start }) => {
    if (!/\.[)"'”’*_]*$/.test(text)) return [];
    const [, better] = starts.find(([pattern]) => pattern.test(text)) ?? [];
    if (better === undefined) return [];
    return [{ place: locate(passage, start), message: `${quoteStart(text)}: ${better}` }];
  });
};
