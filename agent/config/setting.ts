/** One option as one source gives it, not yet checked. */
export interface Setting {
  /** A text, a list of texts, or whatever else a file has in its place. */
  readonly value: unknown;
  /** Where it is from, as in `from VIPNAT_VIP`; of a list, where that element is from. Empty for a flag. */
  readonly from: (index?: number) => string;
}

/** Option name, in camelCase, to what one source gives for it. */
export type Settings = ReadonlyMap<string, Setting>;

/** What a source comes to. A problem is one line for a person, without `vipnat: ` in front. */
export interface SourceReading {
  readonly settings: Settings;
  readonly problems: readonly string[];
}

/** Splits the text of a list option: commas or blanks separate. An empty text stays, as the one element that is wrong. */
export function splitList(text: string): string[] {
  const parts = text.split(/[\s,]+/).filter((part) => part !== '');
  return parts.length === 0 ? [text] : parts;
}

/** ` (from VIPNAT_VIP)`, or nothing for a flag. */
export function formatSource(from: string): string {
  return from === '' ? '' : ` (from ${from})`;
}

/** A given text as it is safe to print: as it is when it is a plain word, else quoted, escaped and cut short. */
export function quoteText(text: string): string {
  // The longest address with brackets and port has 47 characters; nobody needs a whole pasted file back.
  const short = text.length > 60 ? `${text.slice(0, 60)}…` : text;
  return /^[\x21-\x7e…]+$/.test(short) ? short : JSON.stringify(short);
}
