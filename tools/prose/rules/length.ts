import { type FindProblems, quoteStart, locate } from './rule.ts';
import { splitSentences, countWords } from './passage.ts';

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
