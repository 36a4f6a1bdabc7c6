import type { Part } from './tree.ts';

/** In the place of something that counts as one word and is no text, such as what a template is filled with. */
export const filler = '\uE000';

/** What ends a passage: an empty line, a line that is indented or an item of a list, the next column. */
const borders = /\n[ \t]*(?=\n)|\n(?=[ \t])|\n(?=- )|[ ]{3,}/g;

/** What is one word, and what ends a line in a program's text. */
const specials = /\{\{.*?\}\}|\uE000+|\\n/g;

/** The passages of a plain text, such as a help or notes, which begins at a place of a file. */
export function findPassages(text: string, from: number): Part[][] {
  const passages: Part[][] = [];
  let start = 0;
  for (const { 0: border, index } of [...text.matchAll(borders), { 0: '', index: text.length }]) {
    const passage = text.slice(start, index);
    if (isProse(passage)) passages.push(splitParts(passage, from + start));
    start = index + border.length;
  }
  return passages;
}

/** One passage as parts. */
export function splitParts(text: string, from: number): Part[] {
  const parts: Part[] = [];
  let start = 0;
  const add = (end: number, type: Part['type']): void => {
    if (end > start) parts.push({ start: from + start, end: from + end, type });
    start = end;
  };
  for (const { 0: special, index } of text.matchAll(specials)) {
    add(index, 'Str');
    add(index + special.length, special === '\\n' ? 'Break' : 'Code');
  }
  add(text.length, 'Str');
  return parts;
}

/** Whether a text has three words in a row. What has less is a name, a label or a command. */
export function isProse(passage: string): boolean {
  const words = passage.replaceAll(specials, (special) => (special === '\\n' ? ' ' : 'it'));
  return /(?:^|[\s("'])[A-Za-z][\w'-]*,? [\w'/-]+,? [a-z'-]{2,}/.test(words.replaceAll(/\s+/g, ' '));
}
