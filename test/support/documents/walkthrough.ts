import { lexer, type Token } from 'marked';
import { readSection } from './table.ts';

/** A command that a document has somebody type, and what is to be seen then. */
export interface TypedCommand {
  readonly command: string;
  /** Lines of the output; `…` stands for anything in a line, and alone for any lines. */
  readonly output: readonly string[];
}

export interface Step {
  /** What it says before anything is typed. */
  readonly lead: string;
  /** The lines behind `$ ` of its blocks, in order. */
  readonly commands: readonly TypedCommand[];
}

/** The steps of the numbered list below a heading, in order. */
export function readSteps(path: string, heading: string): Step[] {
  const list = lexer(readSection(path, heading)).find((token) => token.type === 'list' && isOrdered(token));
  if (list === undefined) throw new Error(`${path} has no steps below ${heading}`);
  return (list as { items: { tokens: Token[] }[] }).items.map(({ tokens }) => ({
    lead: (tokens[0] as { text?: string } | undefined)?.text ?? '',
    commands: tokens.flatMap((token) => (token.type === 'code' ? readTyped(String(token['text'])) : [])),
  }));
}

function isOrdered(token: Token): boolean {
  return (token as { ordered?: boolean }).ordered === true;
}

function readTyped(text: string): TypedCommand[] {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((block) => {
      const [command = '', ...output] = block.trimEnd().split('\n');
      return { command, output };
    });
}

/** Whether a program printed what a document shows. Blanks at the end of lines and of the whole do not count. */
export function isAsShown(printed: string, output: readonly string[]): boolean {
  const lines = output.map((line) =>
    line.trim() === '…' ? '(?:.*\\n)*' : `${toPattern(line.trimEnd())}\\n`,
  );
  const text = printed.trimEnd().replaceAll(/[ \t]+$/gm, '');
  return new RegExp(`^${lines.join('')}$`).test(text === '' ? '' : `${text}\n`);
}

/** Columns are as wide as what is in them. */
function toPattern(line: string): string {
  const [indent = ''] = /^ */.exec(line) ?? [];
  const words = line
    .slice(indent.length)
    .split(/ +/)
    .map((word) => word.split('…').map(escape).join('.*'));
  return `${indent}${words.join(' +')}`;
}

function escape(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
