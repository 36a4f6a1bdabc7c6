import { countWords, splitSentences } from './passage.ts';
import { type FindProblems, locate, quoteStart } from './rule.ts';

/** No sentence has more words than the limit. A heading is not a sentence. */
export function limitLength(limit: number): FindProblems {
  return (passage) => {
    if (passage.isHeading) return [];
    return splitSentences(passage).flatMap(({ text, start }) => {
      const words = countWords(text);
      if (words <= limit) return [];
      const message = `${quoteStart(text)} has ${words} words: split it, the limit is ${limit}`;
      return [{ place: locate(passage, start), message }];
    });
  };
}
