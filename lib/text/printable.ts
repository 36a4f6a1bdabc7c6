/** Control and format characters, line and paragraph separators, and halves of characters; line feeds and tabs apart. */
const unprintable = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/**
 * A text from elsewhere as it is safe on a terminal and in a log: what would move the cursor, colour or turn round what
 * follows stands there as its escape (`\u001b`). Lines and tabs stay.
 */
export function toPrintable(text: string): string {
  return text.replaceAll(unprintable, escapeUnprintable);
}

/** The same for JSON, where such an escape is the character itself. */
export function toPrintableJson(value: unknown, indent?: number): string {
  return toPrintable(JSON.stringify(value, null, indent));
}

/** A printable text without characters outside ASCII: those that vipnat writes have a likeness, others stand there as their escape. */
export function toAscii(text: string): string {
  return text.replaceAll(
    /[^\p{ASCII}\u00a0]/gu,
    (character) => likenesses[character] ?? escapeUnprintable(character),
  );
}

const likenesses: Readonly<Record<string, string>> = {
  '·': '-',
  '…': '...',
  '’': "'",
  '–': '-',
  '→': '->',
  '►': '>',
};

function escapeUnprintable(character: string): string {
  const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}

/** The same as one line: line feeds, tabs and what blanks are around them become one blank. */
export function toPrintableLine(text: string): string {
  const parts = text.split(/[\n\t]/).map((part) => part.trim());
  return toPrintable(parts.length === 1 ? text : parts.filter((part) => part !== '').join(' '));
}

/** So much of what a tenant wrote says which text it is. */
const maxQuoted = 60;

/**
 * The same of a text that a tenant wrote, 60 characters of it at most: an annotation has room for 256 KiB, and each character of it can be
 * printed as six.
 */
export function quoteTenant(text: string): string {
  return toPrintableLine(text.length > maxQuoted ? `${text.slice(0, maxQuoted)}…` : text);
}
