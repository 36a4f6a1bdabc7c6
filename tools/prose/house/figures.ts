import { readSources, productFiles, type Source } from './source.ts';
import { findCircles } from './circles.ts';
import { findPrivateWords, countCommentLines, type PrivateWord } from './private-words.ts';
import { readFileSync, readdirSync, globSync } from 'node:fs';
import { join } from 'node:path';

/** What is counted, in the order of the print, and what it is of the product, if nothing else is said. */
export const figureToMeaning = {
  files: 'files',
  lines: 'lines',
  arrows: 'arrows: pairs of files of which one imports the other, types included',
  circles: 'circles of files that import each other, types included',
  filesInCircles: 'files in a circle',
  doors: 'imports by cli of a program’s file other than its main.ts',
  topFolders: 'folders at the top of the repository, without hidden ones',
  testLines: 'lines of tests',
  privateComments: 'comment lines with a private word',
  privateCode: 'code lines with a private word in a name',
} as const;

/** A figure's name, in tools/prose/settings/ceilings.json too. */
export type Figure = keyof typeof figureToMeaning;

/** Each figure's number. */
export type Figures = Readonly<Record<Figure, number>>;

/** The figures, and what stands behind those that name places. */
export interface House {
  readonly figures: Figures;
  readonly circles: readonly (readonly string[])[];
  /** All comment lines: what `privateComments` is a part of. */
  readonly commentLines: number;
}

const programs = ['agent', 'balancer', 'controller', 'devices'];
/** What cli may import of a program: its table of contents, and what a driver promises. */
const doors = [...programs.map((program) => `${program}/main.ts`), 'devices/driver.ts'];

/** Counts the checkout in a folder. */
export function measureHouse(root: string): House {
  const sources = readSources(root, productFiles);
  const fileToImports = mapImports(sources);
  const circles = findCircles(fileToImports);
  const privateWords = sources.flatMap(findPrivateWords);
  const figures = {
    files: sources.length,
    lines: sum(sources.map(({ text }) => countLines(text))),
    arrows: sum([...fileToImports.values()].map(({ size }) => size)),
    circles: circles.length,
    filesInCircles: circles.flat().length,
    doors: sources.flatMap(listPastDoors).length,
    topFolders: countTopFolders(root),
    testLines: countTestLines(root),
    privateComments: countPlaces(privateWords, 'comment'),
    privateCode: countPlaces(privateWords, 'code'),
  };
  return { figures, circles, commentLines: sum(sources.map(countCommentLines)) };
}

function mapImports(sources: readonly Source[]): Map<string, Set<string>> {
  const paths = new Set(sources.map(({ path }) => path));
  return new Map(
    sources.map(({ path, imports }) => [path, new Set(imports.filter((imported) => paths.has(imported)))]),
  );
}

function listPastDoors({ path, imports }: Source): string[] {
  if (!path.startsWith('cli/')) return [];
  return imports.filter(
    (imported) => programs.includes(imported.split('/')[0] ?? '') && !doors.includes(imported),
  );
}

/** What git ignores is no part of the repository. */
function countTopFolders(root: string): number {
  const ignored = readFileSync(join(root, '.gitignore'), 'utf8').split('\n');
  return readdirSync(root, { withFileTypes: true }).filter(
    (entry) => entry.isDirectory() && !entry.name.startsWith('.') && !ignored.includes(`${entry.name}/`),
  ).length;
}

function countTestLines(root: string): number {
  const files = globSync('test/**/*.ts', { cwd: root });
  return sum(files.map((file) => countLines(readFileSync(join(root, file), 'utf8'))));
}

function countPlaces(words: readonly PrivateWord[], kind: PrivateWord['kind']): number {
  return new Set(words.filter((word) => word.kind === kind).map(({ path, line }) => `${path}:${line}`)).size;
}

function countLines(text: string): number {
  return text.split('\n').length - 1;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
