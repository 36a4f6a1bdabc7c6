/**
 * A document's text with a section in the place of what is between the comments `NAME:begin` and `NAME:end`.
 * @throws Error when the text has no such comments.
 */
export function fillSection(text: string, name: string, section: string): string {
  const [beginMark, endMark] = [`<!-- ${name}:begin -->`, `<!-- ${name}:end -->`];
  const [before, after] = [text.indexOf(beginMark), text.indexOf(endMark)];
  if (before < 0 || after < before) throw new Error(`there is no ${beginMark} … ${endMark}`);
  return `${text.slice(0, before)}${beginMark}\n\n${section.trimEnd()}\n\n${text.slice(after)}`;
}
