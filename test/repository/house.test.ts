import { makeFolder } from '../support/network/own-folder.ts';
import { mkdirSync, writeFileSync, mkdtempSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { beforeEach, describe, test, expect } from '@jest/globals';
import { measureHouse } from '../../tools/prose/house/figures.ts';
import { findCircles } from '../../tools/prose/house/circles.ts';
import { findPrivateWords } from '../../tools/prose/house/private-words.ts';
import { readSource } from '../../tools/prose/house/source.ts';
import { execa } from 'execa';

/** A small checkout with one of each that is counted. */
const tree = {
  '.gitignore': 'node_modules/\n',
  '.github/ci.yml': '',
  'node_modules/a/index.ts': '',
  'docs/page.md': '',
  'agent/main.ts':
    "import { type Judge } from './health/judge.ts';\nexport const run = (judge: Judge) => judge;\n",
  'agent/health/judge.ts':
    "import { type Log } from './log.ts';\n\n/** The way to judge. */\nexport type Judge = Log;\n",
  'agent/health/log.ts':
    "import { type Judge } from './judge.ts';\n\n/** A log. */\nexport type Log = { readonly lookedAt: Judge };\n",
  'cli/main.ts': [
    "import { run } from '../agent/main.ts';",
    "import { type Judge } from '../agent/health/judge.ts';",
    "import { type Log } from '../agent/health/log.ts';",
    "export { text } from '../lib/text.ts';",
    "export const later = (judge: Judge, log: Log) => [run(judge), import('../lib/text.ts'), log];\n",
  ].join('\n'),
  'lib/text.ts': '',
  'tools/prose/settings/ceilings.json': '{}',
  'test/text.test.ts': "import '../lib/text.ts';\n",
};

const figures = {
  ...{ files: 5, lines: 15, arrows: 7, circles: 1, filesInCircles: 2, doors: 2, topFolders: 6 },
  ...{ testLines: 1, privateComments: 1, privateCode: 1 },
};

const folders = makeFolder('house');
let root = '';

function write(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

beforeEach(() => {
  root = mkdtempSync(join(folders, 'tree-'));
  for (const [path, text] of Object.entries(tree)) write(path, text);
});

describe('the figures of a checkout', () => {
  test('count one of each', () => {
    expect(measureHouse(root)).toEqual({
      figures,
      circles: [['agent/health/judge.ts', 'agent/health/log.ts']],
      commentLines: 2,
    });
  });

  test('have no circle once one of its arrows is gone', () => {
    write('agent/health/log.ts', 'export type Log = string;\n');
    expect(measureHouse(root).figures).toMatchObject({ circles: 0, filesInCircles: 0, arrows: 6 });
  });

  test('count an import past a door by each declaration', () => {
    write('cli/main.ts', `${tree['cli/main.ts']}export * from '../agent/health/log.ts';\n`);
    expect(measureHouse(root).figures).toMatchObject({ doors: 3, arrows: 7 });
  });

  test('allow cli the main of each program, and what drivers promise', () => {
    const allowed = ['agent', 'balancer', 'controller', 'devices'].map((program) => `${program}/main.ts`);
    const imports = [...allowed, 'devices/driver.ts'].map((path) => `import '../${path}';\n`);
    write('cli/main.ts', imports.join(''));
    expect(measureHouse(root).figures).toMatchObject({ doors: 0 });
    write('cli/main.ts', [...imports, "import '../devices/pair.ts';\n"].join(''));
    expect(measureHouse(root).figures).toMatchObject({ doors: 1 });
  });
});

test.each([
  ['a chain', { a: ['b'], b: ['c'], c: [] }, []],
  ['a file that imports itself', { a: ['a'] }, []],
  ['two circles', { a: ['b'], b: ['a', 'c'], c: ['d'], d: ['c'] }, ['c d', 'a b']],
  ['two circles that share a file', { a: ['b'], b: ['a', 'c'], c: ['b'] }, ['a b c']],
  ['a long circle, entered in its midst', { x: ['b'], a: ['b'], b: ['c'], c: ['a', 'd'], d: [] }, ['a b c']],
])('the circles of %s', (_, graph: Readonly<Record<string, readonly string[]>>, circles) => {
  const found = findCircles(new Map(Object.entries(graph).map(([from, to]) => [from, new Set(to)])));
  expect(found.map((circle) => circle.join(' '))).toEqual(circles);
});

function findWords(text: string, path = 'agent/a.ts'): string[] {
  return findPrivateWords(readSource(path, text)).map(
    ({ kind, line, message }) => `${line} ${kind} ${/"([^"]*)"/.exec(message)?.[1]?.replace(/\s+/, ' ')}`,
  );
}

describe('private words', () => {
  test.each([
    ['// the way\n', ['1 comment way']],
    ['/** It is read at\n * once. */\n', ['1 comment at once']],
    ['/**\n * Right.\n * It is told.\n */\n', ['3 comment told']],
    ['/** `way`, {@link way}, a gateway, looks at it. */\n', []],
    ['f(); // told\n', ['1 comment told']],
    ["f('// the way', `/* told */ ${f(/\\/\\* told/)} // told`); // read\n", []],
  ])('of comments, in %j', (text, words) => {
    expect(findWords(text)).toEqual(words);
  });

  test.each([
    ['lookAtHost();\n', ['1 code look']],
    ['lookUp(); lookup(); outlook();\n', []],
    ['a.lastLook = this.#way;\n', ['1 code look', '1 code way']],
    ['type WayEntry = A;\n', ['1 code way']],
    ['const MAX_WAYS = 1;\n', ['1 code ways']],
    ["import { a } from './log/last-look.ts';\nimport 'look';\n", ['1 code look']],
    ['holder(vipHolder, seatHolders, lease.holderIdentity);\n', ['1 code holder']],
    ["f('look', `way`);\n", []],
  ])('of names, in %j', (text, words) => {
    expect(findWords(text)).toEqual(words);
  });

  test('are no words of a text where the file reads it word by word', () => {
    expect(findWords('quoteWords(nodeWords);\n')).toEqual(['1 code words']);
    expect(findWords('quoteWords(nodeWords, look);\n', 'lib/keepalived/a.ts')).toEqual(['1 code look']);
  });
});

describe('scripts/lint house', () => {
  const program = resolve('tools/prose/house/main.ts');
  const ceilingsFile = 'tools/prose/settings/ceilings.json';

  const run = (...words: string[]) =>
    execa(process.execPath, [program, ...words], { cwd: root, reject: false });
  const setCeilings = (ceilings: object) => {
    write(ceilingsFile, `${JSON.stringify({ ...figures, ...ceilings }, null, 2)}\n`);
  };
  const readCeilings = (): unknown => JSON.parse(readFileSync(join(root, ceilingsFile), 'utf8'));

  test('passes figures at their ceilings, and prints both', async () => {
    setCeilings({});
    const { exitCode, stdout, stderr } = await run();
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    expect(stdout).toMatch(/^doors +2 of at most +2 /m);
    expect(stdout).toContain('50.0 % of 2 comment lines have a private word');
    expect(stdout).toContain('circle: agent/health/judge.ts agent/health/log.ts');
  });

  test.each(Object.keys(figures))('refuses %s above the ceiling, and does not raise it', async (name) => {
    const ceiling = figures[name as keyof typeof figures] - 1;
    setCeilings({ [name]: ceiling });
    for (const { exitCode, stderr } of [await run(), await run('--lower')]) {
      expect(exitCode).toBe(1);
      expect(stderr).toContain(`above its ceiling: ${name} ${ceiling + 1}, ceiling ${ceiling} `);
    }
    expect(readCeilings()).toEqual({ ...figures, [name]: ceiling });
  });

  test('refuses a figure without a ceiling', async () => {
    setCeilings({ doors: undefined });
    expect(await run()).toMatchObject({ exitCode: 1 });
  });

  test('asks for a lower ceiling, and lowers it', async () => {
    setCeilings({ doors: 3 });
    const { exitCode, stderr } = await run();
    expect(exitCode).toBe(1);
    expect(stderr).toContain('below its ceiling, which falls in the same commit: doors 2, ceiling 3 ');
    expect(stderr).toContain('scripts/lint house --lower');
    expect(await run('--lower')).toMatchObject({ exitCode: 0 });
    expect(readCeilings()).toEqual(figures);
    expect(await run()).toMatchObject({ exitCode: 0 });
  });

  test('lets a figure be a hundredth below its ceiling', async () => {
    write('test/text.test.ts', '\n'.repeat(99));
    setCeilings({ testLines: 100 });
    expect(await run()).toMatchObject({ exitCode: 0 });
    write('test/text.test.ts', '\n'.repeat(98));
    expect(await run()).toMatchObject({ exitCode: 1 });
  });

  test('lists private words of the named files, or of all', async () => {
    const all = [
      'agent/health/judge.ts:3 comment "way": write "balancing mode"; for kube-proxy "proxy mode"; else "path", "method", "how to"',
      'agent/health/log.ts:4 code lookedAt: "looked": write "sync", "check" or "read"',
    ];
    expect(await run('--words')).toMatchObject({ exitCode: 1, stdout: all.join('\n') });
    expect(await run('--words', 'agent/health/log.ts')).toMatchObject({ exitCode: 1, stdout: all[1] });
    expect(await run('--words', 'agent/main.ts')).toMatchObject({ exitCode: 0, stdout: '' });
  });

  test('refuses a file that is not there, and another option', async () => {
    expect(await run('--words', 'agent/none.ts')).toMatchObject({
      exitCode: 1,
      stderr: 'lint: agent/none.ts is not a file',
    });
    expect(await run('--raise')).toMatchObject({ exitCode: 1 });
  });
});
