import { type FindProblems, locate } from './rule.ts';

/**
 * A word that a reader has to guess at, and what to write: a regular expression for whole words, in any case, in
 * which a blank is any white space; then the better word. docs/glossary.md defines the terms.
 */
export type Term = readonly [pattern: string, better: string];

/** None of the terms is used. Code is not read: published names may be what they are. */
export function refuseWords(terms: readonly Term[]): FindProblems {
  const compiled = terms.map(([pattern, better]) => ({ pattern: compile(pattern), better }));
  return (passage) =>
    compiled.flatMap(({ pattern, better }) =>
      [...passage.text.matchAll(pattern)].map(({ 0: words, index }) => ({
        place: locate(passage, index),
        message: `"${words}": write ${better}`,
      })),
    );
}

/** A blank in a pattern is any number of them: a term may be broken over lines. */
function compile(pattern: string): RegExp {
  return new RegExp(`(?<![\\w-])(?:${pattern.replaceAll(' ', '\\s+')})(?![\\w-])`, 'gi');
}
