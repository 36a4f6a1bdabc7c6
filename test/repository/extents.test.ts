import { expect, test } from '@jest/globals';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { parseDocument } from '../support/documents/document.ts';

const path = 'docs/testing.md';

/** The files that leave something to `--full` or `--long`: by their names, or as they ask the one switch. */
const listShortened = (): string[] =>
  readdirSync('test', { recursive: true, encoding: 'utf8' })
    .map((name) => join('test', name))
    .filter((name) => name.endsWith('.ts'))
    .filter((name) => /\.(?:full|long)\.test\.ts$/.test(name) || asksSwitch(readFileSync(name, 'utf8')));

function asksSwitch(source: string): boolean {
  return /^import \{[^}]*\} from '[^']*jest\/extent\.ts';$/m.test(source);
}

test(`${path} names every file that leaves something to --full or --long`, () => {
  const { links } = parseDocument(path, readFileSync(path, 'utf8'));
  const linked = links.map((link) => normalize(join(dirname(path), link)));
  const files = listShortened();
  expect(files.length).toBeGreaterThan(5);
  expect(files.filter((file) => !linked.includes(file))).toEqual([]);
});

test('the switch is asked in one place', () => {
  const sources = readdirSync('test', { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ts'),
  );
  const asks = /env\[.TEST_EXTENT|TEST_EXTENT[:,} ].*= process\.env/;
  const askers = sources.filter((name) => asks.test(readFileSync(join('test', name), 'utf8')));
  expect(askers).toEqual(['support/jest/extent.ts']);
});

test('Jest begins with files that are there', () => {
  const sources = readdirSync('test', { recursive: true, encoding: 'utf8' });
  const text = readFileSync('test/support/jest/longest-first.js', 'utf8');
  const ends = [...text.matchAll(/'([a-z-]+\/[a-z.-]+\.test\.ts)'/g)].map(([, end = '']) => end);
  expect(ends.length).toBeGreaterThan(5);
  expect(ends.filter((end) => !sources.some((source) => source.endsWith(`/${end}`)))).toEqual([]);
});
