import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execFile, execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import ts from 'typescript';
import { readSection } from '../support/documents/table.ts';
import { type Addition, additions, type Edit } from './additions.ts';

/** Milliseconds: a machine with more to do needs several times as long as one at rest. */
const limitMs = 300_000;

function readParagraph({ title }: Addition): string {
  const paragraphs = readSection('CONTRIBUTING.md', 'To add …').split('\n\n');
  return paragraphs.find((text) => text.startsWith(`**${title}.**`)) ?? '';
}

/** The files that it names, and folders where it is for whoever adds to choose the file. */
function listNamed(addition: Addition): string[] {
  const words = [...readParagraph(addition).matchAll(/`([^`]+)`/g)].map(([, word = '']) => word);
  return words.filter((word) => /^[a-z]+\/[\w./-]+$/.test(word)).sort();
}

/** All additions at once, but for these files of theirs. */
const listEdits = (left: ReadonlySet<string>): Map<string, Edit> =>
  new Map(additions.flatMap(({ files }) => Object.entries(files).filter(([file]) => !left.has(file))));

const edit = (file: string, change: Edit): string =>
  change(existsSync(file) ? readFileSync(file, 'utf8') : '');

/** Parsed once for all programs. */
const fileToSource = new Map<string, ts.SourceFile | undefined>();

/** What the compiler says about each addition's files when all is done but for some files. */
function compile(left: ReadonlySet<string>): Map<Addition, readonly unknown[]> {
  const edits = listEdits(left);
  const { options } = ts.parseJsonConfigFileContent(
    ts.readConfigFile('tsconfig.json', (path) => ts.sys.readFile(path)).config,
    ts.sys,
    '.',
  );
  const real = ts.createCompilerHost(options);
  const texts = new Map([...edits].map(([file, change]) => [resolve(file), edit(file, change)]));
  const host: ts.CompilerHost = {
    ...real,
    readFile: (file) => texts.get(file) ?? real.readFile(file),
    fileExists: (file) => texts.has(file) || real.fileExists(file),
    getSourceFile: (file, version) => {
      const text = texts.get(file);
      if (text !== undefined) return ts.createSourceFile(file, text, version);
      const source = fileToSource.get(file) ?? real.getSourceFile(file, version);
      fileToSource.set(file, source);
      return source;
    },
  };
  const sources = additions.flatMap(({ files }) => Object.keys(files)).filter((file) => file.endsWith('.ts'));
  const program = ts.createProgram({ rootNames: sources.map((file) => resolve(file)), options, host });
  const diagnose = (file: string) => {
    const source = program.getSourceFile(resolve(file));
    return source === undefined
      ? []
      : program.getSemanticDiagnostics(source).map(({ messageText }) => messageText);
  };
  return new Map(additions.map((one) => [one, Object.keys(one.files).flatMap(diagnose)]));
}

/** Files of additions that the compiler does not miss when they are left out. */
function findUnmissed(): Map<Addition, string[]> {
  const additionToFiles = new Map(additions.map((one): [Addition, string[]] => [one, []]));
  const lists = additions.map((one) =>
    Object.keys(one.files).filter((file) => !one.heldElsewhere.includes(file)),
  );
  for (let round = 0; lists.some((files) => round < files.length); round += 1) {
    const left = lists.map((files) => files[round]);
    const told = compile(new Set(left.filter((file) => file !== undefined)));
    additions.forEach((one, index) => {
      const file = left[index];
      if (file !== undefined && told.get(one)?.length === 0) additionToFiles.get(one)?.push(file);
    });
  }
  return additionToFiles;
}

/** Makes a copy of the checkout in which all is added but for some files; answers its folder. */
function copyCheckout(left: ReadonlySet<string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'vipnat-additions-'));
  const ignored = [
    '.git',
    ...readFileSync('.gitignore', 'utf8')
      .split('\n')
      .map((name) => name.replace('/', '')),
  ];
  for (const name of readdirSync('.')) {
    if (!ignored.includes(name)) cpSync(name, join(folder, name), { recursive: true });
  }
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
  for (const [file, change] of listEdits(left)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), edit(file, change));
  }
  const tables = ['--disable-warning=ExperimentalWarning', 'test/support/documents/write-tables.ts'];
  execFileSync(process.execPath, tables, { cwd: folder });
  return folder;
}

/** Runs a program in a folder; answers what it printed, null when it ended well. */
async function run(folder: string, args: readonly string[]): Promise<string | null> {
  return await new Promise((done) => {
    execFile(process.execPath, args, { cwd: folder, maxBuffer: 1e8 }, (error, stdout, stderr) => {
      done(error === null ? null : stdout + stderr);
    });
  });
}

/** The tests that compare catalogues with documents and with what is expected. What fails says what it is about; empty when none fails. */
async function runComparisons(folder: string): Promise<string> {
  const files = 'test/(repository/(docs|metrics|chart)|unit/(config/load|agent/report/metrics))\\.test\\.ts';
  const options = ['--selectProjects', 'repository', 'unit', '--testPathPatterns', files];
  const jest = ['--experimental-vm-modules', 'node_modules/jest/bin/jest.js', ...options];
  return (await run(folder, jest)) ?? '';
}

test.each(additions)('CONTRIBUTING names for $title the files that change, and no other', (addition) => {
  const named = listNamed(addition);
  const changed = Object.keys(addition.files);
  const isNamed = (file: string) =>
    named.some((one) => file === one || (one.endsWith('/') && dirname(file) === dirname(`${one}x`)));
  expect(changed.filter((file) => !isNamed(file))).toEqual([]);
  expect(named.filter((one) => !changed.some((file) => file.startsWith(one)))).toEqual([]);
});

describe('what CONTRIBUTING names', () => {
  const folders: string[] = [];
  let complete: { readonly types: string | null; readonly comparisons: string };
  let missed: ReadonlyMap<Addition, readonly { readonly file: string; readonly told: string }[]>;

  /** Leaves one file of each addition out at a time: those that the compiler has not missed. */
  async function leaveOut(additionToFiles: ReadonlyMap<Addition, readonly string[]>): Promise<typeof missed> {
    const longest = Math.max(...[...additionToFiles.values()].map(({ length }) => length));
    const rounds = Array.from({ length: longest }, (_, round) =>
      [...additionToFiles.values()].map((files) => files[round]).filter((file) => file !== undefined),
    );
    const texts: string[] = [];
    for (const left of rounds) {
      const folder = copyCheckout(new Set(left));
      folders.push(folder);
      texts.push(await runComparisons(folder));
    }
    return new Map(
      [...additionToFiles].map(([one, files]) => [
        one,
        files.map((file, round) => ({ file, told: texts[round] ?? '' })),
      ]),
    );
  }

  beforeAll(async () => {
    const folder = copyCheckout(new Set());
    folders.push(folder);
    const types = run(folder, ['node_modules/typescript/bin/tsc', '-p', '.']);
    missed = await leaveOut(findUnmissed());
    complete = { types: await types, comparisons: await runComparisons(folder) };
  }, limitMs);
  afterAll(() => {
    for (const folder of folders) rmSync(folder, { recursive: true });
  });

  test('is enough for the compiler', () => {
    expect(complete.types).toBeNull();
  });

  test('is enough for the tests that compare catalogues', () => {
    expect(complete.comparisons).toBe('');
  });

  test.each(additions)('is needed for $title: nothing of it can be left out', (addition) => {
    const unmissed = missed.get(addition)?.filter(({ told }) => !told.includes(addition.name));
    expect(unmissed?.map(({ file }) => file)).toEqual([]);
  });
});
