import { beforeAll, describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { makeFolder } from '../support/network/own-folder.ts';
import { linkPrograms } from './link-programs.ts';

const folder = makeFolder('demo-test');
beforeAll(() => linkPrograms(folder, 'bash dirname id sed'));

/** Where there are just the programs that the script's own checks take. */
const run = (...words: readonly string[]) =>
  execa('bash', ['scripts/demo', ...words], { env: { PATH: folder }, extendEnv: false, reject: false });

describe('scripts/demo', () => {
  test('--help has a line for each option', async () => {
    const { exitCode, stdout } = await run('--help');
    expect(exitCode).toBe(0);
    expect(stdout.match(/^ {2}scripts\/demo( --\w+)?/gm)).toEqual([
      ...['  scripts/demo', '  scripts/demo --lab', '  scripts/demo --services'],
    ]);
  });

  test.each([['--sevices'], ['--lab', '--services'], ['services']])('refuses %s %s', async (...words) => {
    const { exitCode, stdout, stderr } = await run(...words);
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' });
    expect(stderr).toBe(
      `demo: there are the options --lab, --services and --help, one at a time. You gave: ${words.join(' ')}`,
    );
  });

  test('--services starts nothing without root or without Go, and says what to do', async () => {
    const { exitCode, stdout, stderr } = await run('--services');
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' });
    expect(stderr.split('\n')).toEqual([
      process.getuid?.() === 0
        ? expect.stringMatching(/no go is in PATH\. Install Go, or run scripts\/demo without options$/)
        : 'demo: only root can make network namespaces: try sudo scripts/demo --services',
    ]);
  });
});
