/** One rule, taken apart. Options keep their order; a negated option's key has a `!` in front. */
export interface Rule {
  /** The text it was read from, without `-A CHAIN `. */
  readonly text: string;
  /** Option (long names for the tools' short ones stay as printed: `-d`, `--dport`) with its values joined by a space. */
  readonly options: ReadonlyMap<string, string>;
  /** The chain or target of `-j` or `-g`; null for a rule without one. */
  readonly target: string | null;
  /** The first comment, unquoted; null when there is none. */
  readonly comment: string | null;
}

/**
 * Takes a rule's text apart, as printed by any iptables from 1.8.2 on or as rendered by vipnat. Total: text
 * that is no rule gives a rule without target whose options hold whatever stood there.
 */
export function parseRule(text: string): Rule {
  const options = readOptions(splitWords(text));
  return {
    text,
    options,
    target: options.get('-j') ?? options.get('-g') ?? null,
    comment: options.get('--comment') ?? null,
  };
}

/** The words of a rule's text, unquoted: what the tool would be given as arguments. */
export function splitRule(text: string): string[] {
  return splitWords(text).map(({ value }) => value);
}

function readOptions(words: readonly Word[]): Map<string, string> {
  // Joined at the end: adding to a text word by word would take time by the square of its length.
  const optionToValues = new Map<string, string[]>();
  let option = '';
  let negation = '';
  for (const word of words) {
    if (isNegation(word)) {
      negation = '!';
    } else if (isOption(word)) {
      option = nameUniquely(`${negation}${word.value}`, optionToValues);
      optionToValues.set(option, []);
      negation = '';
    } else {
      const values = optionToValues.get(option) ?? [];
      values.push(word.value);
      optionToValues.set(option, values);
    }
  }
  return new Map([...optionToValues].map(([name, values]) => [name, values.join(' ')]));
}

/** A match can stand in a rule twice, for example two comments: the first keeps the plain name. */
function nameUniquely(option: string, options: ReadonlyMap<string, unknown>): string {
  return options.has(option) ? `${option}#${options.size}` : option;
}

interface Word {
  readonly value: string;
  readonly isQuoted: boolean;
}

/** Splits as iptables-restore does: blanks separate, double quotes group, a backslash inside them escapes. */
function splitWords(text: string): Word[] {
  return [...text.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)].map(([, quoted, plain]) =>
    quoted === undefined
      ? { value: plain ?? '', isQuoted: false }
      : { value: quoted.replaceAll(/\\(.)/g, '$1'), isQuoted: true },
  );
}

function isNegation({ value, isQuoted }: Word): boolean {
  return !isQuoted && value === '!';
}

function isOption({ value, isQuoted }: Word): boolean {
  return !isQuoted && /^--?[A-Za-z]/.test(value);
}
