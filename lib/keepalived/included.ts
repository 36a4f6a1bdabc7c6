import { type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type ForeignRoot } from './foreign-root.ts';
import { keepForHost } from './expand.ts';
import { expandBraces, isPattern, matchesGlob } from './glob.ts';
import { removeComment } from './grammar.ts';

/** Far more than any configuration has, all its files together. */
const maxBytes = 4_194_304;

/** As many files are read at most. */
const maxFiles = 1000;

/** Parts of patterns that are looked for. */
const maxSearches = 10_000;

/** A file that includes itself, by whatever way, is left out: keepalived itself does not start then. */
const maxDepth = 32;

/** A configuration with the files that it includes in their places. */
export interface WholeConfiguration {
  readonly text: string;
  /** Every file that was read, the one that includes the others first. */
  readonly files: readonly string[];
}

/**
 * Reads a configuration and what it includes, by the rules of keepalived.conf(5): patterns in relation to the folder of the
 * file that has them; what is no ordinary file, or can be executed, is passed over. `id` as in expandConfiguration. A
 * definition in a pattern stays as it is. Null where there is no such file.
 * Rejects as readIfThere does, also for an included file that may not be read, and with the code `too large` for too many.
 */
export async function readWhole(
  root: ForeignRoot,
  path: string,
  id: string,
): Promise<WholeConfiguration | null> {
  const text = await root.read(path);
  if (text === null) return null;
  const reading: Reading = { root, id, files: [path], rest: maxBytes - text.length, searches: 0 };
  return { text: await insertIncluded(reading, text, [path]), files: reading.files };
}

interface Reading {
  readonly root: ForeignRoot;
  readonly id: string;
  readonly files: string[];
  /** How much more may be read. */
  rest: number;
  searches: number;
}

/** `chain` are the files that led here, the one that has this text last. */
async function insertIncluded(reading: Reading, text: string, chain: readonly string[]): Promise<string> {
  const folder = dirname(chain.at(-1) ?? '/');
  const lines: string[] = [];
  for (const line of text.split('\n')) {
    const pattern = findPattern(line, reading.id);
    if (pattern === null) lines.push(line.replaceAll('${_PWD}', () => folder));
    else lines.push(...(await readMatching(reading, { folder, pattern }, chain)));
  }
  return lines.join('\n');
}

function findPattern(line: string, id: string): string | null {
  return /^include[rmwba]?\s+(\S.*)$/.exec(keepForHost(removeComment(line), id))?.[1] ?? null;
}

interface Include {
  readonly folder: string;
  readonly pattern: string;
}

async function readMatching(
  reading: Reading,
  { folder, pattern }: Include,
  chain: readonly string[],
): Promise<string[]> {
  const texts: string[] = [];
  for (const one of expandBraces(pattern)) {
    for (const path of await findPaths(reading, one.startsWith('/') ? one : `${folder}/${one}`)) {
      if (chain.includes(path) || chain.length >= maxDepth) continue;
      const text = await readIncluded(reading, path);
      if (text !== null) texts.push(await insertIncluded(reading, text, [...chain, path]));
    }
  }
  return texts;
}

/** The paths that a pattern means, in their order; one without wildcards means itself. */
async function findPaths(reading: Reading, pattern: string): Promise<string[]> {
  let paths = [''];
  for (const part of pattern.split('/').slice(1)) {
    reading.searches += paths.length;
    if (reading.searches > maxSearches) throw tooLarge();
    paths = (await Promise.all(paths.map((path) => findNames(reading, path, part)))).flat();
  }
  return paths;
}

async function findNames({ root }: Reading, folder: string, part: string): Promise<string[]> {
  if (!isPattern(part)) return [`${folder}/${part}`];
  const names = await root.list(folder === '' ? '/' : folder);
  return names.filter((name) => matchesGlob(name, part)).map((name) => `${folder}/${name}`);
}

async function readIncluded(reading: Reading, path: string): Promise<string | null> {
  if (reading.files.length >= maxFiles) throw tooLarge();
  const text = await reading.root.read(path, { check: refuseProgram }).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === notOrdinary) return null;
    throw error;
  });
  if (text === null) return null;
  reading.files.push(path);
  reading.rest -= text.length;
  if (reading.rest < 0) throw tooLarge();
  return text;
}

/** What readIfThere says of a pipe, a device or a folder. */
const notOrdinary = 'no file';

/** keepalived 2.2.7: "is not a regular non-executable file - skipping". */
async function refuseProgram(file: FileHandle): Promise<void> {
  const { mode } = await file.stat();
  if ((mode & 0o111) !== 0) throw Object.assign(new Error(notOrdinary), { code: notOrdinary });
}

function tooLarge(): NodeJS.ErrnoException {
  return Object.assign(new Error('too large'), { code: 'too large' });
}
