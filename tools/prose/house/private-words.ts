import { refuseWords } from '../rules/words.ts';
import { privateTerms } from '../settings/terms.ts';
import { nameTerms, textTerm, textReaders } from '../settings/names.ts';
import { type Source, findLine } from './source.ts';
import { matchesGlob } from 'node:path';
import type { FindProblems } from '../rules/rule.ts';
import type { Passage } from '../rules/passage.ts';

/** A word that only who wrote the code understands. */
export interface PrivateWord {
  readonly kind: 'comment' | 'code';
  readonly path: string;
  /** From 1. */
  readonly line: number;
  /** The word, and what is better. */
  readonly message: string;
}

const refuseInComment = refuseWords(privateTerms);
const refuseInName = refuseWords(nameTerms);
const refuseText = refuseWords([textTerm]);

/** What was found in a name before: most names are used often. */
const nameToMessages = new Map<string, NameMessages>();

/** What is to be changed in a name, and what is only where the file's subject is not the words of a text. */
interface NameMessages {
  readonly everywhere: readonly string[];
  readonly text: readonly string[];
}

/** The private words in a file's comments and identifiers, in the order of their lines. */
export function findPrivateWords(source: Source): PrivateWord[] {
  const { path, comments, names } = source;
  const readsTexts = textReaders.some((glob) => matchesGlob(path, glob));
  const place = (kind: PrivateWord['kind'], start: number, message: string): PrivateWord => ({
    kind,
    path,
    line: findLine(source, start),
    message,
  });
  const inComments = comments.flatMap((comment) =>
    refuseInComment(toPassage(maskMarks(comment.text))).map((problem) =>
      place('comment', comment.start + problem.place, problem.message),
    ),
  );
  const inNames = names.flatMap((name) => {
    const { everywhere, text } = judgeName(name.text);
    return [...everywhere, ...(readsTexts ? [] : text)].map((message) =>
      place('code', name.start, `${name.text}: ${message}`),
    );
  });
  return [...inComments, ...inNames].sort((one, other) => one.line - other.line);
}

/** How many lines of comments have a word at all. */
export function countCommentLines({ comments }: Source): number {
  return comments.flatMap(({ text }) => text.split('\n')).filter((line) => /\p{L}/u.test(line)).length;
}

function judgeName(name: string): NameMessages {
  const known = nameToMessages.get(name);
  if (known !== undefined) return known;
  const words = toPassage(splitName(name));
  const toMessages = (find: FindProblems) => find(words).map(({ message }) => message);
  const messages = { everywhere: toMessages(refuseInName), text: toMessages(refuseText) };
  nameToMessages.set(name, messages);
  return messages;
}

/** `look at host` of `lookAtHost`, `#lookAt` and `LOOK_AT`: its words in small letters. */
function splitName(name: string): string {
  return name
    .replaceAll(/([a-z0-9])([A-Z])|([A-Z])(?=[A-Z][a-z])/g, '$1$3 $2')
    .replaceAll(/[^A-Za-z0-9]+/g, ' ')
    .toLowerCase();
}

/** A comment without its stars and what is in code marks, each place where it was. */
function maskMarks(comment: string): string {
  return comment
    .replaceAll(/^\s*\/?\*+\/?|^\/\/|\*\/$/gm, (mark) => mark.replaceAll(/\S/g, ' '))
    .replaceAll(/`[^`]*`|\{@link [^}]*\}/g, (code) => code.replaceAll(/\S/g, 'X'));
}

function toPassage(text: string): Passage {
  const places = Array.from({ length: text.length }, (_, index) => index);
  return { isHeading: false, text, places, source: text };
}
