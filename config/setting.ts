import { nameFlag, type OptionName } from './options.ts';

/** One option as one source gives it, not yet checked. */
export interface Setting {
  /** A text, a list of texts, or whatever else a file has in its place. */
  readonly value: unknown;
  /** Where it is from, as in `from VIPNAT_VIP`; of a list, where that element is from. Empty for a flag. */
  readonly from: (index?: number) => string;
  /** In which line of the file it stands, from 1 on; of a list, that element. Absent for a flag and a variable. */
  readonly line?: (index?: number) => number;
}

/** Option name, in camelCase, to what one source gives for it. */
export type Settings = ReadonlyMap<string, Setting>;

/** What is wrong with a configuration. */
export interface Problem {
  /** One line for a person, without `vipnat: ` in front. */
  readonly text: string;
  /** Which line of the file it is about, from 1 on; 0 for the file as a whole; null for what the file does not say. */
  readonly line: number | null;
}

/** What a source comes to. */
export interface SourceReading {
  readonly settings: Settings;
  readonly problems: readonly Problem[];
}

/** The line of the file that a setting stands in; null for another source. */
export function findLine(setting: Setting | undefined, index?: number): number | null {
  return setting?.line?.(index) ?? null;
}

/** How a person has called an option: by its key in the file, else by its flag. */
export function nameIn(name: OptionName, setting: Setting | undefined): string {
  return setting?.line === undefined ? nameFlag(name) : name;
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
  return /^[\x21-\x7e\u2026]+$/.test(short) ? short : JSON.stringify(short);
}
