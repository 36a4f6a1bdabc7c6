import { readFileSync } from 'node:fs';

/** The cells of the first table of a document or a part of one, without its two head lines. */
export function readTable(text: string): string[][] {
  const rows = text.split('\n').filter((line) => line.startsWith('| '));
  return rows.slice(2).map((line) =>
    line
      .slice(2, -2)
      .split(' | ')
      .map((cell) => cell.trim()),
  );
}

/** What stands below a heading of a document, to the next heading. Throws where there is no such heading. */
export function readSection(path: string, heading: string): string {
  const [, ...sections] = readFileSync(path, 'utf8').split(/^#+ /m);
  const found = sections.find((section) => section.startsWith(`${heading}\n`));
  if (found === undefined) throw new Error(`${path} has no heading ${heading}`);
  return found;
}

/** A cell's text without the marks of code. */
export function unquote(cell = ''): string {
  return cell.replaceAll('`', '');
}
