/** A piece of a line: blanks, or a part of a word in any of bash's quotes or none that mean nothing more. */
const piece = /[ \t]+|'[^']*'|"[^"$`\\!]*"|\$'(?:[^'\\]|\\.)*'|\\.|[\w@%+=:,./-]+/suy;

/**
 * The words that bash makes of a line, by its manual (QUOTING); an error for a line that is more than words: one that
 * substitutes, pipes, redirects, globs or ends a command.
 */
export function splitShellWords(line: string): string[] {
  const words: string[][] = [];
  let isInWord = false;
  for (const text of listPieces(line)) {
    const isBlank = /^[ \t]/.test(text);
    if (!isBlank && !isInWord) words.push([]);
    if (!isBlank) words.at(-1)?.push(readPiece(text));
    isInWord = !isBlank;
  }
  return words.map((parts) => parts.join(''));
}

function listPieces(line: string): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < line.length; at = piece.lastIndex) {
    piece.lastIndex = at;
    const [found] = piece.exec(line) ?? [];
    if (found === undefined)
      throw new Error(`a shell takes this for more than words: ${JSON.stringify(line)}`);
    pieces.push(found);
  }
  return pieces;
}

function readPiece(text: string): string {
  if (text.startsWith("$'")) return unescape(text.slice(2, -1));
  if (/^['"]/.test(text)) return text.slice(1, -1);
  return text.startsWith('\\') ? text.slice(1) : text;
}

/** The escapes of `$'…'` that are used. */
function unescape(text: string): string {
  return text.replaceAll(
    /\\(?:u([\da-f]{4})|(['\\nrt]))/g,
    (_, unit: string | undefined, letter: string | undefined) =>
      unit === undefined
        ? (letterToText.get(letter ?? '') ?? letter ?? '')
        : String.fromCharCode(Number.parseInt(unit, 16)),
  );
}

const letterToText = new Map([
  ['n', '\n'],
  ['r', '\r'],
  ['t', '\t'],
]);
