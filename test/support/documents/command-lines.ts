import type { Code } from './document.ts';

/** vipnat, however it is called. */
const program = /^(?:vipnat|scripts\/vipnat|\/opt\/vipnat\/vipnat\.js)$/;

/** What may stand before it and runs it: on another host, with other rights, by its Node.js, again and again. */
const runner =
  /^(?:sudo|exec|watch|scripts\/lab|--name|--|kubectl|-n|kube-system|ds\/vipnat|(?:ExecStart=)?[\w/.]*node|[A-Z_]+=.*|m\d)$/;

/** What ends a command where another one may begin. A choice of words, `a|b`, has no spaces in it. */
const separator = /\s(?:&&|\|\|?)\s|;\s|\$\(/;

/** What a document says in other languages is not a command line. */
const languages: readonly (string | null)[] = ['', 'sh', 'ini', null];

/**
 * The words behind `vipnat`, of each command line with it in a piece of code. Where some lines of a block begin with
 * `$ ` only these are command lines, and the others what was printed.
 */
export function listCommandLines({ text, language }: Code): string[][] {
  if (!languages.includes(language)) return [];
  return listLines(text)
    .map((line) => line.replace(/(?:^|\s)#.*$/, ''))
    .flatMap((line) => line.split(separator))
    .flatMap((command) => {
      const words = readWords(command);
      const at = words.findIndex((word) => program.test(word));
      return at >= 0 && words.slice(0, at).every((word) => runner.test(word)) ? [words.slice(at + 1)] : [];
    });
}

/** A command line for each choice that it leaves: `manifest a|b` is two. */
export function expandChoices(words: readonly string[]): string[][] {
  const at = words.findIndex((word) => /^[a-z-]+(?:\|[a-z-]+)+$/.test(word));
  const choices = words[at]?.split('|') ?? [];
  if (choices.length === 0) return [[...words]];
  return choices.flatMap((choice) => expandChoices(words.with(at, choice)));
}

/** Whether a word stands for others: `VIP`, `ADDR,…`. */
export function isPlaceholder(word: string): boolean {
  return word.includes('…') || /^[A-Z]{2,}/.test(word);
}

function listLines(text: string): string[] {
  const lines = text.replaceAll(/\\\n\s*/g, '').split('\n');
  const typed = lines.filter((line) => line.startsWith('$ '));
  return typed.length > 0 ? typed.map((line) => line.slice(2)) : lines;
}

/** Without what is the shell's or the document's: quotes, where output goes, `…`, brackets around what may be left out. */
function readWords(command: string): string[] {
  return command
    .replace(/\s[<>&].*$/, '')
    .split(/\s+/)
    .map((word) =>
      word
        .replaceAll(/['"]/g, '')
        .replace(/^\[(?=--)/, '')
        .replace(/(?<=^[^[]*)\]$/, ''),
    )
    .filter((word) => word !== '' && word !== '…');
}
