import type { FindProblems } from '../rules/rule.ts';
import { limitLength } from '../rules/length.ts';
import { refuseRelativeStarts } from '../rules/start.ts';
import { refuseWords } from '../rules/words.ts';
import { terms } from './terms.ts';
import { refuseInternals } from '../rules/internals.ts';
import { matchesGlob } from 'node:path';

/** The rules by name, as findings show it. */
export type Rules = Readonly<Record<string, FindProblems>>;

const everywhere: Rules = {
  length: limitLength(20),
  start: refuseRelativeStarts,
  words: refuseWords(terms),
};

/** What users read has all rules. */
const forUsers: Rules = { ...everywhere, internals: refuseInternals };

/**
 * The files, and which rules they keep; the first line that fits counts. docs/adr/ and docs/testing.md are looser: a decision is
 * read rarely and was true when it was written, and testing.md names what only a contributor knows. Comments in TypeScript
 * are not read at all: they use the names of the code around them.
 */
export const pathToRules: readonly (readonly [glob: string, rules: Rules])[] = [
  ['docs/adr/*.md', { length: limitLength(40) }],
  ['docs/testing.md', { length: limitLength(40) }],
  ['{CONTRIBUTING,docs/design}.md', everywhere],
  ['{README,CHANGELOG,SECURITY}.md', forUsers],
  ['docs/*.md', forUsers],
  ['manifests/**/*.{md,yaml,tpl,json,txt}', forUsers],
  // Programs in the languages of shells: their lines are no sentences.
  ['cli/completion.ts', { ...forUsers, length: () => [] }],
  ['{agent,balancer,cli,config,controller,devices,lib}/**/*.ts', forUsers],
];

/** The rules that a file keeps, by its path from the project's folder; null where it is not listed. */
export function findRules(path: string): Rules | null {
  const [, rules] = pathToRules.find(([glob]) => matchesGlob(path, glob)) ?? [];
  return rules ?? null;
}
