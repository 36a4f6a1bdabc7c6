import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const sumsFile = 'SHA256SUMS';

/** Writes SHA256SUMS over every other file of a folder, as `sha256sum --check` reads it. */
export function writeSums(folder: string): void {
  const names = readdirSync(folder).filter((name) => name !== sumsFile);
  const lines = names.sort().map((name) => `${sum(join(folder, name))}  ${name}\n`);
  writeFileSync(join(folder, sumsFile), lines.join(''));
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
