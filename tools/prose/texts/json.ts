import type { Part } from './tree.ts';
import { isProse, splitParts } from './plain.ts';

/** The passages of a JSON file: titles and descriptions, of a dashboard's panels or a schema's properties. */
export function findJsonPassages(text: string): Part[][] {
  return [...text.matchAll(/"(?:title|description)": "((?:[^"\\]|\\.)*)"/g)].flatMap(
    ({ 0: pair, 1: words = '', index }) => {
      const start = index + pair.length - 1 - words.length;
      return isProse(words) ? [splitParts(words, start)] : [];
    },
  );
}
