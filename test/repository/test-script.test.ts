import { beforeEach, describe, expect, test } from '@jest/globals';
import { chmodSync, copyFileSync, cpSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { makeFolderEach } from '../support/network/own-folder.ts';
import { join } from 'node:path';
import { execa } from 'execa';

/** A checkout that has nothing but scripts/test, and stand-ins for what it starts. */
let checkout: string;

function provide(path: string, body = ''): void {
  const file = join(checkout, path);
  writeFileSync(file, `#!/bin/sh\n${body}\n`);
  chmodSync(file, 0o755);
}

/** What a file of tests does each time it runs: `P` passes, a word fails with that message. */
type Ends = readonly string[];

/** A Jest whose project PART has these files; a file runs out of ends with its last one. It keeps count of runs in `runs/`. */
function provideJest(fileToEnds: Readonly<Record<string, Ends>>, skipped = 0): void {
  const source = `
    const { existsSync, mkdirSync, readFileSync, writeFileSync } = require('node:fs');
    const words = process.argv;
    const after = (option) => words[words.indexOf(option) + 1];
    const files = ${JSON.stringify(fileToEnds)};
    const only = words.includes('--runTestsByPath') ? after('--runTestsByPath') : null;
    mkdirSync('runs', { recursive: true });
    const testResults = Object.keys(files).filter((file) => only === null || only === file).map((file) => {
      const counter = 'runs/' + file.replaceAll('/', '_');
      const run = existsSync(counter) ? Number(readFileSync(counter, 'utf8')) : 0;
      writeFileSync(counter, String(run + 1));
      const end = files[file][run] ?? files[file].at(-1);
      const isGood = end === 'P';
      return { name: file, status: isGood ? 'passed' : 'failed', message: '', assertionResults: [
        { fullName: 'works', status: isGood ? 'passed' : 'failed', failureMessages: isGood ? [] : [end] } ] };
    });
    const passed = testResults.filter(({ status }) => status === 'passed').length;
    writeFileSync(after('--outputFile'), JSON.stringify({ numPassedTests: passed, numPendingTests: ${skipped}, numTodoTests: 0,
      numTotalTests: testResults.length + ${skipped}, testResults }));`;
  mkdirSync(join(checkout, 'node_modules/jest/bin'), { recursive: true });
  writeFileSync(join(checkout, 'node_modules/jest/bin/jest.js'), source);
}

makeFolderEach('test-script', (made) => {
  checkout = made;
  for (const folder of ['scripts', 'path', 'node_modules/.bin'])
    mkdirSync(join(checkout, folder), { recursive: true });
  writeFileSync(join(checkout, 'package.json'), '{ "type": "module" }');
  writeFileSync(join(checkout, 'node_modules/package.json'), '{ "type": "commonjs" }');
  copyFileSync('scripts/test', join(checkout, 'scripts/test'));
  for (const folder of ['run', 'jest'])
    cpSync(join('test/support', folder), join(checkout, 'test/support', folder), { recursive: true });
  cpSync('node_modules/commander', join(checkout, 'node_modules/commander'), { recursive: true });
  symlinkSync(process.execPath, join(checkout, 'node_modules/.bin/node'));
  for (const script of ['setup', 'build', 'lab', 'lint']) provide(`scripts/${script}`);
  for (const program of ['go', 'unshare']) provide(`path/${program}`);
  provideJest({ 'test/a.test.ts': ['P'], 'test/b.test.ts': ['P'] });
});

/** Runs it, and says how it ended, what it said, and its last lines. */
async function run(words: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const { exitCode, stdout, stderr } = await execa(join(checkout, 'scripts/test'), words, {
    cwd: checkout,
    env: { CI: '', ...env, PATH: `${join(checkout, 'path')}:${process.env['PATH'] ?? ''}` },
    reject: false,
  });
  return { exitCode, stdout, stderr };
}

const late = 'WaitedTooLong: the agent did not log that';

describe('scripts/test ends well', () => {
  test.each([['unit'], ['migration']])('when every test of %s passed', async (part) => {
    expect(await run([part])).toMatchObject({ exitCode: 0, stdout: '2 passed, 0 failed' });
  });

  test('when it has built the components, and a test is skipped on a machine of one’s own', async () => {
    provideJest({ 'test/a.test.ts': ['P'] }, 1);
    expect(await run(['unit', 'migration'])).toMatchObject({
      exitCode: 0,
      stdout: '2 passed, 0 failed, 2 skipped',
    });
  });

  test('when a layer cannot run on this machine, also in CI, and says so', async () => {
    rmSync(join(checkout, 'path/go'));
    const onlyHere = { PATH: `${join(checkout, 'path')}:/usr/bin:/bin`, CI: 'true' };
    const command = execa(join(checkout, 'scripts/test'), ['unit', 'migration'], {
      ...{ cwd: checkout, env: onlyHere, reject: false },
    });
    const { exitCode, stdout, stderr } = await command;
    expect([exitCode, stdout]).toEqual([0, '2 passed, 0 failed']);
    expect(stderr).toContain('not run: migration: its components are built with Go, and no go is in PATH');
  });

  test('when a file in real time was too late, and passes alone; it says which one', async () => {
    provideJest({ 'test/a.test.ts': ['P'], 'test/b.test.ts': [late, 'P'] });
    const { exitCode, stdout, stderr } = await run(['contract'], { CI: 'true' });
    expect([exitCode, stdout]).toEqual([0, 'flaky: 1\n2 passed, 0 failed']);
    expect(stderr).toMatch(/^flake: .*"test":"b\.test\.ts › works"/m);
  });
});

describe('scripts/test ends with 1', () => {
  const oneFailed = '1 passed, 1 failed';
  const beside = (...ends: string[]) => ({ 'test/a.test.ts': ['P'], 'test/b.test.ts': ends });

  test.each<[string, string, Record<string, Ends>, string]>([
    ['a file is too late twice', 'contract', beside(late), oneFailed],
    ['a failure is not about time', 'contract', beside('a wrong rule', 'P'), oneFailed],
    ['late answers came beside a reset', 'contract', beside(`${late}: ECONNRESET`, 'P'), oneFailed],
    ['a test of a part in memory is late', 'unit', beside(late, 'P'), oneFailed],
    [
      'four files are late',
      'contract',
      Object.fromEntries([1, 2, 3, 4].map((n) => [`test/${n}.test.ts`, [late, 'P']])),
      '0 passed, 4 failed',
    ],
    ['there is no test', 'unit', {}, '0 passed, 1 failed'],
  ])('when %s', async (_, part, files, stdout) => {
    provideJest(files);
    expect(await run([part])).toMatchObject({ exitCode: 1, stdout });
  });

  test('when a test is skipped in CI', async () => {
    provideJest({ 'test/a.test.ts': ['P'] }, 1);
    expect(await run(['unit'], { CI: 'true' })).toMatchObject({
      exitCode: 1,
      stdout: '1 passed, 0 failed, 1 skipped',
    });
  });

  test('when a part could run, and what it needs is not there, in CI', async () => {
    provide('path/unshare', 'exit 1');
    const { exitCode, stderr } = await run(['contract'], { CI: 'true' });
    expect(exitCode).toBe(1);
    expect(stderr).toContain('contract cannot run: only root can make network namespaces');
  });

  test('when the components cannot be built, with what the build printed', async () => {
    provide('scripts/lab', 'echo no such module; exit 1');
    const { exitCode, stdout, stderr } = await run(['unit', 'migration']);
    expect([exitCode, stdout]).toEqual([1, '2 passed, 1 failed']);
    expect(stderr).toContain('no such module');
  });

  test('when a word is no part, before it runs anything', async () => {
    const { exitCode, stdout, stderr } = await run(['nonsense']);
    expect([exitCode, stdout]).toEqual([1, '']);
    expect(stderr).toContain("'nonsense' is invalid");
  });
});

describe('a change that adds tests to the gate', () => {
  beforeEach(async () => {
    const git = ['-c', 'user.name=test', '-c', 'user.email=test@example.org'];
    for (const words of [
      ['init', '-q'],
      ['add', '-A'],
      ['commit', '-q', '-m', 'all'],
    ]) {
      await execa('git', [...git, ...words], { cwd: checkout });
    }
    mkdirSync(join(checkout, 'lib/kube-proxy'), { recursive: true });
    writeFileSync(join(checkout, 'lib/kube-proxy/new.ts'), '');
  });

  test('has them run after the gate', async () => {
    const { exitCode, stderr } = await run([], { TEST_BASE: 'HEAD' });
    expect(exitCode).toBe(0);
    expect(stderr).toMatch(/^control-plane, by change: 2 passed, 0 failed/m);
  });

  test('fails when their components cannot be built', async () => {
    writeFileSync(join(checkout, 'scripts/lab'), '#!/bin/sh\necho no such module; exit 1\n');
    const { exitCode, stdout, stderr } = await run([], { TEST_BASE: 'HEAD' });
    expect([exitCode, stdout]).toEqual([1, expect.stringMatching(/^\d+ passed, 1 failed$/)]);
    expect(stderr).toContain('no such module');
    expect(stderr).not.toContain('no time beside the gate');
  });
});
