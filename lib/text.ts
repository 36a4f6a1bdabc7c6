const dayMinutes = 24 * 60;

/** How long something has been so: `0.3 s`, `12 s`, `8m33s`, `2h05m`, `3 d`. */
export function formatAge(ms: number): string {
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  const pad = (count: number) => String(count).padStart(2, '0');
  if (minutes >= dayMinutes) return `${Math.floor(minutes / dayMinutes)} d`;
  return minutes < 60
    ? `${minutes}m${pad(seconds % 60)}s`
    : `${Math.floor(minutes / 60)}h${pad(minutes % 60)}m`;
}

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

/** Control and format characters, line and paragraph separators, and halves of characters; line feeds and tabs apart. */
const unprintable = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/**
 * A text from elsewhere as it is safe on a terminal and in a log: what would move the cursor, colour or turn round what
 * follows is printed as its escape (`\u001b`). Lines and tabs stay.
 */
export function toPrintable(text: string): string {
  return text.replaceAll(unprintable, escapeUnprintable);
}

/** The same for JSON, where such an escape is the character itself. */
export function toPrintableJson(value: unknown): string {
  return toPrintable(JSON.stringify(value));
}

/** The same as a document of its own: indented, with a newline at its end. */
export function formatDocument(value: object): string {
  return `${toPrintable(JSON.stringify(value, null, 2))}\n`;
}

/** A printable text without characters outside ASCII: those that vipnat writes have a likeness, others are printed as their escape. */
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

/** What a text stands for; undefined for a text that is not JSON. */
export function readJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** A fact and where it was seen, in words for a person: `nat KUBE-SERVICES (iptables-nft)`. */
export interface Sourced<T> {
  readonly value: T;
  readonly seenIn: string;
}

/**
 * The exit statuses of all commands, in one table: docs/reference.md has a row for each, and a test compares the two.
 * A diagnostic that found something has another status than one that could not check. A signal ends a command with 128 and its number.
 */
export const exitStatuses = {
  /** It is done, or nothing is wrong. */
  done: 0,
  /** It could not be done, or could not be checked: standard error says why, with a code. */
  failed: 1,
  /** A diagnostic found something: drift, trouble, warnings. */
  found: 2,
  /** Doctor found failures. */
  foundFailures: 3,
  /** The command line or the configuration is wrong: nothing was done. EX_CONFIG of sysexits.h. */
  misused: 78,
  /** Nobody reads standard output any more: what a shell shows of SIGPIPE, which Node ignores. */
  readerGone: 141,
} as const;

/** Set by scripts/build, from package.json. */
declare const VIPNAT_VERSION: string | undefined;

/** The version of this build, as package.json has it; `from source` where no build was made. */
export const version = typeof VIPNAT_VERSION === 'undefined' ? 'from source' : VIPNAT_VERSION;

/** A given text as it is safe to print: as it is when it is a plain word, else quoted, escaped and cut short. */
export function quoteText(text: string): string {
  // The longest address with brackets and port has 47 characters; nobody needs a whole pasted file back.
  const short = text.length > 60 ? `${text.slice(0, 60)}…` : text;
  return /^[\x21-\x7e\u2026]+$/.test(short) ? short : JSON.stringify(short);
}

/**
 * Lines of at most so many characters, broken at blanks; a longer word has a line of its own. Null breaks nothing. A
 * no-break space is printed as a blank.
 */
export function wrap(text: string, width: number | null): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + word.length < (width ?? Infinity))
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines.map((line) => line.replaceAll('\u00a0', ' '));
}

/**
 * The candidate that a mistyped word most likely meant, or null when none is near. Case and `-`, `_` count
 * little: `proxy_mode` is near to `proxyMode`.
 */
export function findNearest(word: string, candidates: readonly string[]): string | null {
  const plain = simplify(word);
  const distances = candidates.map((candidate) => ({
    candidate,
    distance: countEdits(plain, simplify(candidate)),
  }));
  const [nearest] = distances.sort((a, b) => a.distance - b.distance);
  if (nearest === undefined) return null;
  // A third of the letters: what commander and git take for a slip of the finger rather than another word.
  const limit = Math.max(1, Math.floor(Math.max(plain.length, simplify(nearest.candidate).length) / 3));
  return nearest.distance <= limit ? nearest.candidate : null;
}

/** A sentence with that candidate; `otherwise` where none is near. */
export function suggest(word: string, candidates: readonly string[], otherwise: string): string {
  const nearest = findNearest(word, candidates);
  return nearest === null ? otherwise : `Did you mean ${nearest}?`;
}

function simplify(word: string): string {
  return word.toLowerCase().replaceAll(/[-_]/g, '').slice(0, 40);
}

/** Insertions, deletions, replacements and swaps of neighbours that turn one word into the other. */
function countEdits(from: string, to: string): number {
  const rows = [Array.from({ length: to.length + 1 }, (_, column) => column)];
  const at = (row: number, column: number) => rows[row]?.[column] ?? Infinity;
  for (let row = 1; row <= from.length; row += 1) {
    const current = [row];
    rows.push(current);
    for (let column = 1; column <= to.length; column += 1) {
      const isSame = from[row - 1] === to[column - 1];
      const isSwapped = from[row - 2] === to[column - 1] && from[row - 1] === to[column - 2];
      current[column] = Math.min(
        at(row - 1, column) + 1,
        at(row, column - 1) + 1,
        at(row - 1, column - 1) + (isSame ? 0 : 1),
        isSwapped ? at(row - 2, column - 2) + 1 : Infinity,
      );
    }
  }
  return at(from.length, to.length);
}

/** The first three, and how many more. */
export function shorten(names: readonly string[]): string {
  const rest = names.length - 3;
  return `${names.slice(0, 3).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}
