import { describe, expect, test } from '@jest/globals';
import { globSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readSection } from '../support/documents/table.ts';

/** The pictures of docs/design.md: each folder with its depth told by blanks, then what is in it. */
const blocks = [...readSection('docs/design.md', 'Where things are').matchAll(/```text\n([^]*?)```/g)];
const pictures = blocks.map(([, text = '']) => readPicture(text));
const [product = []] = pictures;

/** Top folders to how many levels of folders the picture has of them; all where it is not said. */
const topToDepth = new Map([
  ...['bench', 'demo', 'docs', 'lab', 'manifests', 'release', 'scripts'].map((top): [string, number] => [
    top,
    2,
  ]),
  ['test', 3],
]);

interface PicturedFolder {
  readonly path: string;
  readonly meaning: string;
}

function readPicture(text: string): PicturedFolder[] {
  const above: string[] = [];
  return [...text.matchAll(/^( *)([a-z-]+)\/ *(.*)$/gm)].map(([, indent = '', name = '', meaning = '']) => {
    above.splice(indent.length / 2, above.length, name);
    return { path: above.join('/'), meaning };
  });
}

/** The folders in the checkout that a picture has to have, without what git ignores. */
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

/** Imports of one room from another that stands above it in the picture. */
function findUpwardImports(): string[] {
  const rooms = product.map(({ path }) => path).filter((path) => path.split('/').length <= 2);
  const rank = (file: string) =>
    rooms.findLastIndex((room) => dirname(file) === room || file.startsWith(`${room}/`));
  return globSync('{agent,balancer,cli,config,controller,devices,lib}/**/*.ts').flatMap((file) =>
    listImports(file)
      .filter((imported) => rank(imported) < rank(file))
      .map((imported) => `${file} imports ${imported}`),
  );
}

describe('the picture in docs/design.md', () => {
  test('has a line for every folder, and no other', () => {
    expect(
      pictures
        .flat()
        .map(({ path }) => path)
        .sort(),
    ).toEqual(listFolders());
  });

  test('says of every folder what is in it', () => {
    expect(pictures.flat().filter(({ meaning }) => meaning === '')).toEqual([]);
  });

  test('has arrows that go down only', () => {
    expect(findUpwardImports()).toEqual([]);
  });

  test('names six files of which each imports the next one', () => {
    const named = readSection('docs/design.md', 'Where things are').matchAll(/^\d\. `([^`]+)`/gm);
    const files = [...named].map(([, file = '']) => file);
    expect(files).toHaveLength(6);
    const chain = files.slice(1).map((file, index) => listImports(files[index] ?? '').includes(file));
    expect(chain).toEqual([true, true, true, true, true]);
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
