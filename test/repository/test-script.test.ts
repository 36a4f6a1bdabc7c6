import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';

/** A checkout that has nothing but scripts/test, and stand-ins for what it starts. */
let checkout: string;

/** Puts a stand-in at a path below the checkout. */
function provide(path: string, body = ''): void {
  const file = join(checkout, path);
  writeFileSync(file, `#!/bin/sh\n${body}\n`);
  chmodSync(file, 0o755);
}

/** What Jest is to report of every part. */
function provideJest(counts: { readonly failed?: number; readonly skipped?: number } = {}): void {
  const report = {
    numPassedTests: 2,
    numFailedTests: counts.failed ?? 0,
    numPendingTests: counts.skipped ?? 0,
    numTodoTests: 0,
    numRuntimeErrorTestSuites: 0,
    numTotalTests: 2 + (counts.failed ?? 0) + (counts.skipped ?? 0),
  };
  const lines = [
    `[ "$1" = -e ] && exec '${process.execPath}' "$@"`,
    'while [ "$1" != --outputFile ]; do shift; done',
    `echo '${JSON.stringify(report)}' >"$2"`,
  ];
  provide('node_modules/.bin/node', lines.join('\n'));
}

beforeEach(() => {
  checkout = mkdtempSync(join(tmpdir(), 'vipnat-test-script-'));
  for (const folder of ['scripts', 'path', 'node_modules/.bin']) {
    mkdirSync(join(checkout, folder), { recursive: true });
  }
  copyFileSync('scripts/test', join(checkout, 'scripts/test'));
  for (const script of ['scripts/setup', 'scripts/build', 'scripts/lab']) provide(script);
  for (const program of ['path/go', 'path/unshare']) provide(program);
  provideJest();
});

afterEach(() => {
  rmSync(checkout, { recursive: true });
});

/** Runs it, and says how it ended and what its last line was. */
async function run(words: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const { exitCode, stdout } = await execa(join(checkout, 'scripts/test'), words, {
    env: { CI: '', ...env, PATH: `${join(checkout, 'path')}:${process.env['PATH'] ?? ''}` },
    reject: false,
  });
  return { exitCode, last: stdout.split('\n').at(-1) };
}

describe('scripts/test ends well', () => {
  test.each([['unit'], ['migration']])('when every test of %s passed', async (part) => {
    expect(await run([part])).toEqual({ exitCode: 0, last: '2 passed, 0 failed' });
  });

  test('when it has built the components, and a test is skipped on a machine of one’s own', async () => {
    provideJest({ skipped: 1 });
    expect(await run(['unit', 'migration'])).toEqual({ exitCode: 0, last: '4 passed, 0 failed, 2 skipped' });
  });
});

describe('scripts/test ends with 1', () => {
  test('when a test failed', async () => {
    provideJest({ failed: 1 });
    expect(await run(['unit'])).toEqual({ exitCode: 1, last: '2 passed, 1 failed' });
  });

  test('when a test is skipped in CI', async () => {
    provideJest({ skipped: 1 });
    expect(await run(['unit'], { CI: 'true' })).toEqual({
      exitCode: 1,
      last: '2 passed, 0 failed, 1 skipped',
    });
  });

  test('when the components cannot be built', async () => {
    provide('scripts/lab', 'exit 1');
    expect(await run(['unit', 'migration'])).toEqual({ exitCode: 1, last: '2 passed, 1 failed' });
  });
});
