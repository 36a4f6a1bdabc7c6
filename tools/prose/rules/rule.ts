import { type Passage, readPassage } from './passage.ts';
import type { TextlintKernelRule } from '@textlint/kernel';
import type { TxtNode } from '@textlint/ast-node-types';

/** A problem of a passage. */
export interface Problem {
  /** Where it begins in the passage's source. */
  readonly place: number;
  /** The words, and what is better. */
  readonly message: string;
}

/** A rule of this linter: the problems of one passage. */
export type FindProblems = (passage: Passage) => readonly Problem[];

/** The rule for textlint, which then asks it about every passage of a text. */
export function toTextlintRule(find: FindProblems): TextlintKernelRule['rule'] {
  return ({ report, RuleError, locator }) => {
    const visit = (node: TxtNode): void => {
      for (const { place, message } of find(readPassage(node)))
        report(node, new RuleError(message, { padding: locator.at(place) }));
    };
    return { Paragraph: visit, TableCell: visit, Header: visit };
  };
}

/** Where a character of a passage's text is in its source. */
export function locate({ places }: Passage, index: number): number {
  return places[index] ?? 0;
}

/** The first words of a sentence, to name it in a message. */
export function quoteStart(text: string): string {
  const words = text.split(/\s+/);
  return words.length > 6 ? `"${words.slice(0, 6).join(' ')} …"` : `"${words.join(' ')}"`;
}
