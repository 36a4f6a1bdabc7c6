/** The version that a watch was to go on from is too old (410): everything has to be listed anew. */
export class VersionGoneError extends Error {}

/** What was answered is not what was asked for; the message is a phrase for after the question's name. */
export class NonsenseError extends Error {}

/** Foreign words as they are safe in a line: one line, cut short. */
export function quoteForeign(text: string): string {
  const line = text.replaceAll(/[^\x20-\x7e]+/g, ' ').trim();
  return line.length > 160 ? `${line.slice(0, 160)}…` : line;
}
