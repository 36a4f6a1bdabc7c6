import { describe, expect, test } from '@jest/globals';
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readSection } from '../support/documents/table.ts';

/** What a heading or a line of the picture in docs/design.md says of a folder. */
type NamedFolder = Readonly<Record<'path' | 'meaning', string>>;

const product = readHeadings(readFileSync('docs/design.md', 'utf8'));
const named = [...product, ...readPicture(readSection('docs/design.md', 'Around the product'))];

/** Numbers to how the story of a sync writes them. */
const numerals: Readonly<Record<number, string>> = { 4: 'four', 5: 'five', 6: 'six', 7: 'seven', 8: 'eight' };

/** Top folders to how many levels of folders the picture has of them; all where it is not said. */
const topToDepth = new Map([
  ...['docs', 'manifests', 'scripts'].map((top): [string, number] => [top, 2]),
  ['test', 3],
  ['tools', 3],
]);

function readHeadings(text: string): NamedFolder[] {
  const [, part = ''] = /^## Where things are\n([^]*?)^## /m.exec(text) ?? [];
  const [, ...sections] = part.split(/^### /m);
  return sections.map((section) => {
    const [path = '', ...lines] = section.split('\n');
    return { path, meaning: lines.join('\n').trim() };
  });
}

/** Each folder of a picture, with its depth told by blanks, then what is in it. */
function readPicture(text: string): NamedFolder[] {
  const above: string[] = [];
  return [...text.matchAll(/^( *)([a-z-]+)\/ *(.*)$/gm)].map(([, indent = '', name = '', meaning = '']) => {
    above.splice(indent.length / 2, above.length, name);
    return { path: above.join('/'), meaning };
  });
}

/** The folders in the checkout that docs/design.md has to name, without what git ignores. */
function listFolders(): string[] {
  const ignored = readFileSync('.gitignore', 'utf8').split('\n');
  const tops = readdirSync('.', { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
    .map(({ name }) => name)
    .filter((name) => !ignored.includes(`${name}/`));
  return tops.flatMap((top) => [top, ...listFoldersIn(top, topToDepth.get(top) ?? Infinity)]).sort();
}

/** test/unit has the folders of the sources. */
function listFoldersIn(folder: string, depth: number): string[] {
  if (depth === 1 || folder === 'test/unit') return [];
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => `${folder}/${name}`)
    .flatMap((path) => [path, ...listFoldersIn(path, depth - 1)]);
}

/** The files that a source imports from. */
function listImports(file: string): string[] {
  const imports = readFileSync(file, 'utf8').matchAll(/\bfrom '(\.[^']+)'/g);
  return [...imports].map(([, path = '']) => join(dirname(file), path));
}

function listNamedFiles({ path, meaning }: NamedFolder): string[] {
  const names = [...meaning.matchAll(/`([a-z-]+\.ts)`/g)].map(([, name = '']) => name);
  return names.map((name) => `${path}/${name}`);
}

/** Imports of one top folder from another whose heading is above. Programs may be in any order: they never import each other. */
function findUpwardImports(): string[] {
  const tops = product.map(({ path }) => path).filter((path) => !path.includes('/'));
  const rank = (file: string) => tops.indexOf(file.split('/')[0] ?? '');
  return globSync(`{${tops.join(',')}}/**/*.ts`).flatMap((file) =>
    listImports(file)
      .filter((imported) => rank(imported) < rank(file))
      .map((imported) => `${file} imports ${imported}`),
  );
}

describe('docs/design.md', () => {
  test('has a heading for every folder of the product, a line of the picture for every other, and no more', () => {
    expect(named.map(({ path }) => path).sort()).toEqual(listFolders());
  });

  test('has the folders inside a top folder below its heading', () => {
    const tops = product.map(({ path }) => path.split('/')[0]);
    expect(tops.filter((top, index) => top !== tops[index - 1])).toEqual([...new Set(tops)]);
  });

  test('says of every folder what is in it, in at most three lines', () => {
    expect(named.filter(({ meaning }) => meaning === '' || meaning.split('\n').length > 3)).toEqual([]);
  });

  test('names files of a folder that are there', () => {
    expect(product.flatMap(listNamedFiles).filter((file) => !existsSync(file))).toEqual([]);
  });

  test('has the top folders in an order in which imports go down only', () => {
    expect(findUpwardImports()).toEqual([]);
  });

  test('names files of which each is imported by one above it', () => {
    const story = readSection('docs/design.md', 'From a trigger to a write');
    const files = [...story.matchAll(/^\d\. `([^`]+)`/gm)].map(([, file = '']) => file);
    expect(story).toContain(`read ${numerals[files.length]} files in this order`);
    const isImported = (file: string, index: number) =>
      files.slice(0, index).some((above) => listImports(above).includes(file));
    expect(files.slice(1).filter((file, index) => !isImported(file, index + 1))).toEqual([]);
  });
});

test('scripts/lint and the compiler read every top folder that has sources', () => {
  const [, names = ''] = /^for folder in (.*); do$/m.exec(readFileSync('scripts/lint', 'utf8')) ?? [];
  const { include } = JSON.parse(readFileSync('tsconfig.json', 'utf8')) as { include: string[] };
  const files = globSync('*/*/**/*.ts', { exclude: ['node_modules', 'dist', 'coverage'] });
  const tops = [...new Set(files.map((file) => file.split('/')[0]))];
  expect(names.split(' ')).toEqual(expect.arrayContaining(tops));
  expect(include).toEqual(expect.arrayContaining(tops));
});
