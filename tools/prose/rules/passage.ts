import type { TxtNode, TxtParentNode } from '@textlint/ast-node-types';

/** A text that is read in one piece: a paragraph, an item of a list, a cell of a table, a heading, a message. */
export interface Passage {
  readonly isHeading: boolean;
  /** What a person reads, without marks. Each code span is one word, `codeWord`. */
  readonly text: string;
  /** For each character of `text` its place in the node's source. */
  readonly places: readonly number[];
  /** The node's source, with code and the targets of links. */
  readonly source: string;
}

/** One sentence of a passage. */
export interface Sentence {
  readonly text: string;
  /** Where it begins in the passage's text. */
  readonly start: number;
}

/** What stands for a code span, a picture or a tag. It is a capital letter, so that a sentence may begin with it. */
const codeWord = 'X';

/** Full stops after these end no sentence. */
const abbreviations = /(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|approx|No)\.$/;

/** A node of textlint's tree as a passage. */
export function readPassage(node: TxtNode): Passage {
  const words: string[] = [];
  const places: number[] = [];
  const add = (text: string, start: number): void => {
    words.push(text.replaceAll(/\s/g, ' '));
    places.push(...Array.from({ length: text.length }, (_, index) => start + index));
  };
  for (const leaf of listLeaves(node)) {
    const start = leaf.range[0] - node.range[0];
    if (leaf.type === 'Str') add(leaf.raw, start);
    else add(leaf.type === 'Break' ? ' ' : codeWord, start);
  }
  return { isHeading: node.type === 'Header', text: words.join(''), places, source: node.raw };
}

/** The sentences of a passage, in order. Only a full stop, a question mark or an exclamation mark ends one. */
export function splitSentences({ text }: Passage): Sentence[] {
  const sentences: Sentence[] = [];
  let start = 0;
  for (const { 0: mark, index } of text.matchAll(/[.?!]+[)\]"'”’*_]*(?=\s|$)/g)) {
    if (abbreviations.test(text.slice(start, index + 1))) continue;
    const end = index + mark.length;
    sentences.push({ text: text.slice(start, end), start });
    start = end;
  }
  sentences.push({ text: text.slice(start), start });
  return sentences.map(trimStart).filter((sentence) => sentence.text !== '');
}

/** How many words a text has; a dash alone is none. */
export function countWords(text: string): number {
  return text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
}

function trimStart({ text, start }: Sentence): Sentence {
  const blanks = text.length - text.trimStart().length;
  return { text: text.trim(), start: start + blanks };
}

function listLeaves(node: TxtNode): TxtNode[] {
  return isParent(node) ? node.children.flatMap(listLeaves) : [node];
}

function isParent(node: TxtNode): node is TxtParentNode {
  return 'children' in node;
}
