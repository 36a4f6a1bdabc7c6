import { join } from 'node:path';
import { writeFileSync, readdirSync, existsSync, readFileSync } from 'node:fs';
import { createHash } from 'node:crypto';

/** The sums of a release's files. */
export const sumsFile = 'SHA256SUMS';

/** Their signature, which they cannot have. */
export const signatureFile = `${sumsFile}.sig`;

/**
 * Writes SHA256SUMS over every other file of a folder, as `sha256sum --check` reads it: as the folder is once the files of a
 * draft are in it.
 */
export function writeSums(folder: string, draft = folder): void {
  const places = new Map([folder, draft].flatMap((place) => listFiles(place).map((name) => [name, place])));
  for (const name of [sumsFile, signatureFile]) places.delete(name);
  const names = [...places.keys()].sort();
  const lines = names.map((name) => `${sum(join(places.get(name) ?? folder, name))}  ${name}\n`);
  writeFileSync(join(folder, sumsFile), lines.join(''));
}

/** The names of a folder's files, without folders. */
export function listFiles(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => name);
}

/** The files that a folder's SHA256SUMS names; none where there is no such file. */
export function listSummed(folder: string): string[] {
  const path = join(folder, sumsFile);
  if (!existsSync(path)) return [];
  return [...readFileSync(path, 'utf8').matchAll(/^[0-9a-f]{64} {2}([^/\n]+)$/gm)].map(
    ([, name = '']) => name,
  );
}

function sum(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}
