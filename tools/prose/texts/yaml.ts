import type { Part } from './tree.ts';
import { splitParts, isProse } from './plain.ts';
import { parseAllDocuments, visit, isScalar } from 'yaml';

/** Keys whose values people read. */
const proseKeys: readonly unknown[] = ['summary', 'description'];

/** The passages of a YAML file: its comments, and what alerts and charts say of themselves. */
export function findYamlPassages(text: string): Part[][] {
  return [...findComments(text), ...findValues(text)].sort(
    ([first], [second]) => (first?.start ?? 0) - (second?.start ?? 0),
  );
}

/** Comments in lines one below the other are one passage; an empty or indented one, or a list's item, begins the next. */
function findComments(text: string): Part[][] {
  const passages: { text: string; end: number; parts: Part[] }[] = [];
  for (const match of text.matchAll(/^([ \t]*#+ ?)(.*\n?)|(?<=\S[ \t]+)(# )(.*)$/gm)) {
    const [line, mark = '', body = '', trailingMark = '', trailingBody = ''] = match;
    const start = match.index + mark.length + trailingMark.length;
    const words = body + trailingBody;
    const parts = splitParts(words, start);
    const last = passages.at(-1);
    if (last?.end === match.index && !/^\s|^- /.test(words)) {
      last.text += words;
      last.end = match.index + line.length;
      last.parts.push(...parts);
    } else passages.push({ text: words, end: match.index + line.length, parts });
  }
  return passages.filter((passage) => isProse(passage.text)).map(({ parts }) => parts);
}

/** Values of the keys, as they are in the file: a folded one without the line of its sign. */
function findValues(text: string): Part[][] {
  const passages: Part[][] = [];
  for (const document of parseAllDocuments(text)) {
    visit(document, {
      Pair: (_, { key, value }) => {
        if (!isScalar(key) || !proseKeys.includes(key.value) || !isScalar(value) || !value.range) return;
        const [start, end] = value.range;
        const source = text.slice(start, end);
        const [sign] = /^[>|][+-]?\n|^['"]|^/.exec(source) ?? [''];
        const words = source.slice(sign.length).replace(/['"]?\s*$/, '');
        passages.push(splitParts(words, start + sign.length));
      },
    });
  }
  return passages;
}
