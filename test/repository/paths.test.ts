import { expect, test } from '@jest/globals';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';

const sources = globSync('{agent,balancer,cli,config,controller,devices,lib,test,tools}/**/*.ts');
const documents = globSync(['*.md', 'docs/**/*.md']).filter((file) => file !== 'CHANGELOG.md');
const fileNames = new Set(sources.map((file) => basename(file)));

/** Sources that a text names, as a path from the checkout's root or by name alone. */
const namings =
  /(?<![\w./-])(?:(?:agent|balancer|cli|config|controller|devices|lib|test|tools)\/)?[\w/-]*[\w-]\.(?:long\.)?(?:test\.)?ts\b/g;

/** The comments of a source. Not what it imports, which the compiler knows. */
function readComments(file: string): string {
  const text = readFileSync(file, 'utf8');
  return [...text.matchAll(/\/\*\*?[^]*?\*\/|^\s*\/\/ .*$/gm)].map(([comment]) => comment).join('\n');
}

function findGone(text: string): string[] {
  const named = [...text.matchAll(namings)].map(([name]) => name);
  return named.filter((name) =>
    name.includes('/') ? !existsSync(name) && !isPartOfPath(name) : !fileNames.has(name),
  );
}

/** `health/usable.ts` for `agent/health/usable.ts`. */
function isPartOfPath(name: string): boolean {
  return sources.some((file) => file.endsWith(`/${name}`));
}

test('comments name only files that are there', () => {
  const gone = sources.flatMap((file) => findGone(readComments(file)).map((name) => `${file}: ${name}`));
  expect(gone).toEqual([]);
});

test('documents name only files that are there', () => {
  const gone = documents.flatMap((file) =>
    findGone(readFileSync(file, 'utf8')).map((name) => `${file}: ${name}`),
  );
  expect(gone).toEqual([]);
});

test('a file that is gone is found', () => {
  expect(findGone('see judge.ts, agent/decide/mode.ts, gone.ts, health/gone.ts')).toEqual([
    'gone.ts',
    'health/gone.ts',
  ]);
});
