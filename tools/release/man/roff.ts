import { wrap } from '../../../lib/text.ts';

/** Lines of a manual page's source have at most 80 characters, escapes included. */
const lineWidth = 64;

/** Words of a manual page, as groff and mandoc take them: nothing in a text is a request or an escape. */
export function escapeRoff(text: string): string {
  return text
    .replaceAll('\\', String.raw`\e`)
    .replaceAll('-', String.raw`\-`)
    .replaceAll("'", String.raw`\(aq`)
    .replaceAll('`', String.raw`\(ga`)
    .replaceAll('^', String.raw`\(ha`)
    .replaceAll('~', String.raw`\(ti`)
    .replaceAll('…', '...')
    .replaceAll(/^\./gm, String.raw`\&.`);
}

/** Running text in lines of which groff makes its own; what the exit status means begins one. */
export function fill(text: string): string {
  const sentences = text.replaceAll('\n', ' ').split(/ (?=Exit status: )/);
  return sentences.map((sentence) => escapeRoff(wrap(sentence, lineWidth).join('\n'))).join('\n.br\n');
}

/** A heading: of a section, or within one. */
export function heading(title: string, level: 1 | 2): string {
  return `.${level === 1 ? 'SH' : 'SS'} ${level === 1 ? title.toUpperCase() : `"${escapeRoff(title)}"`}\n`;
}

/** A term in bold, and what it means. */
export function item(term: string, meaning: string): string {
  return `.TP\n\\fB${escapeRoff(term)}\\fR\n${fill(meaning)}\n`;
}

/** Running text, a paragraph for each block between empty lines; a block whose lines are indented keeps them as they are. */
export function paragraphs(text: string): string {
  return text
    .trim()
    .split(/\n{2,}/)
    .map(paragraph)
    .join('');
}

function paragraph(block: string): string {
  const lines = block.split('\n');
  const [first = '', ...rest] = lines;
  const isExample = rest.length > 0 && rest.every((line) => line.startsWith('  '));
  if (!isExample) return `.PP\n${fill(block)}\n`;
  const example = rest.map((line) => escapeRoff(line.slice(2))).join('\n');
  return `.PP\n${escapeRoff(first)}\n.PP\n.RS 4\n.nf\n${example}\n.fi\n.RE\n`;
}
