import { fileURLToPath } from 'node:url';
import { test, expect } from '@jest/globals';
import { writeFileSync, mkdirSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolderEach } from '../../support/network/own-folder.ts';
import { execFile } from 'node:child_process';

const locate = (path: string) => fileURLToPath(new URL(`../../../${path}`, import.meta.url));

/** A world that is removed after each test, with one thing that never answers and one that cannot. */
const failing = `
  import { spawn } from 'node:child_process';
  import { once } from 'node:events';
  import { writeFileSync, readFileSync, rmSync } from 'node:fs';
  import { keepEvidence, keepOutput } from '${locate('test/support/jest/evidence.ts')}';
  beforeEach(() => {
    writeFileSync('world', 'as it was');
    keepEvidence('the world', () => 'x'.repeat(2_000_000) + readFileSync('world', 'utf8'));
  });
  afterEach(() => rmSync('world', { force: true }));
  test('passes', () => keepEvidence('gone', () => 'too late')());
  test('fails', async () => {
    keepEvidence('mute', () => new Promise(() => undefined));
    keepEvidence('broken', () => { throw new Error('no evidence', { cause: new Error('of anything') }); });
    const child = spawn('sh', ['-c', 'echo said; echo wrong >&2; exit 3']);
    keepOutput('a process', child);
    await once(child, 'close');
    const until = performance.now() + 1000;
    while (performance.now() < until);
    throw new Error('as it must');
  });
  test('hangs', () => new Promise(() => undefined), 100);
  describe('a block', () => {
    beforeAll(() => { throw new Error('no beginning'); });
    test('never begins', () => undefined);
  });
  test.each(Array.from({ length: 20 }, (_, index) => index))('fails for the time %d', () => { throw new Error('again'); });
`;

let folder: string;
makeFolderEach('evidence', (made) => {
  folder = made;
  const config = {
    ...{ displayName: 'small', rootDir: folder },
    testEnvironment: locate('test/support/jest/environment.js'),
    ...{ testEnvironmentOptions: { evidenceLimitMs: 300 }, testRegex: 'test\\.ts$' },
    extensionsToTreatAsEsm: ['.ts'],
    transform: {
      '\\.ts$': [
        locate('node_modules/@swc/jest/index.js'),
        { jsc: { parser: { syntax: 'typescript' }, target: 'es2023' }, module: { type: 'es6' } },
      ],
    },
  };
  writeFileSync(join(folder, 'jest.config.json'), JSON.stringify(config));
  mkdirSync(join(folder, 'deep'));
  writeFileSync(join(folder, 'deep/world.test.ts'), failing);
});

/** Runs Jest as scripts/test does; answers its own results. */
async function runJest(): Promise<{ numPassedTests: number; numFailedTests: number }> {
  const words = [
    ...['--experimental-vm-modules', '--disable-warning=ExperimentalWarning'],
    ...[locate('node_modules/jest/bin/jest.js'), '--config', 'jest.config.json', '--json'],
  ];
  const env = { ...process.env, TEST_EVIDENCE: join(folder, 'evidence') };
  const output = await new Promise<string>((resolve) => {
    execFile(process.execPath, words, { cwd: folder, env }, (_, stdout) => {
      resolve(stdout);
    });
  });
  return JSON.parse(output) as { numPassedTests: number; numFailedTests: number };
}

test('a test that fails leaves what tells why, as it was before its hooks removed it', async () => {
  const { numPassedTests, numFailedTests } = await runJest();
  expect([numPassedTests, numFailedTests]).toEqual([1, 23]);
  const own = join(folder, 'evidence/small/world.test.ts');
  const read = (path: string) => readFileSync(join(own, path), 'utf8');

  expect(readdirSync(own)).toHaveLength(10);
  expect(readdirSync(own)).toEqual(
    expect.arrayContaining(['1-fails', '2-hangs', '3-beforeAll', '10-fails-for-the-time-6']),
  );
  expect(readdirSync(join(own, '1-fails'))).toEqual([
    ...['01-the-world.txt', '02-the-world.txt', '03-mute.txt', '04-broken.txt', '05-a-process.txt'],
    ...['failure.txt', 'machine.txt'],
  ]);
  expect(read('1-fails/failure.txt')).toMatch(/^fails\n\nError: as it must\n/);
  // Its end, and no more of it than a person reads.
  expect(read('1-fails/02-the-world.txt')).toMatch(/^x+as it was$/);
  expect(read('1-fails/02-the-world.txt')).toHaveLength(1_000_000);
  expect(read('1-fails/03-mute.txt')).toBe('nothing came within 300 ms\n');
  expect(read('1-fails/04-broken.txt')).toMatch(/^Error: no evidence\n[^]*\ncaused by Error: of anything\n/);
  expect(read('1-fails/05-a-process.txt')).toMatch(
    /: 3\n\n# standard output\nsaid\n\n\n# standard error\nwrong\n/,
  );
  const stoodStillMs = /(\d+) ms in this test/.exec(read('1-fails/machine.txt'))?.[1];
  expect(Number(stoodStillMs)).toBeGreaterThan(800);
  expect(read('2-hangs/failure.txt')).toContain('Exceeded timeout of 100 ms');
});
