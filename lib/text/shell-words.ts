import { toPrintable } from './printable.ts';

/** Words as one line that bash takes apart into them again, whatever is in them. NUL, which no argument can hold, is left out. */
export function quoteWords(words: readonly string[]): string {
  return words.map((word) => quoteWord(word.replaceAll('\0', ''))).join(' ');
}

function quoteWord(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  if (!/[\n\t]/.test(word) && toPrintable(word) === word)
    return `'${word.replaceAll("'", String.raw`'\''`)}'`;
  // What a terminal would not show is written by its number.
  const escaped = word
    .replaceAll(/[\\']/g, String.raw`\$&`)
    .replaceAll('\n', String.raw`\n`)
    .replaceAll('\t', String.raw`\t`);
  return `$'${toPrintable(escaped)}'`;
}
