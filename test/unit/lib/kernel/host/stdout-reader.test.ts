import { describe, expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const child = fileURLToPath(new URL('stdout-reader-child.ts', import.meta.url));

/** Runs a line of bash in which `watch` waits for its reader to go, for so many milliseconds; answers PIPESTATUS. */
function run(line: string, path = process.env['PATH']) {
  const watch = `watch() { ${process.execPath} --disable-warning=ExperimentalWarning ${child} "$@"; }`;
  const { stdout, stderr } = spawnSync(
    'bash',
    ['--norc', '-c', `${watch}; ${line}; echo "\${PIPESTATUS[@]}"`],
    {
      encoding: 'utf8',
      env: { ...process.env, PATH: path },
      timeout: 120_000,
    },
  );
  return { statuses: stdout.trim().split('\n').at(-1), stderr };
}

describe('the reader of standard output', () => {
  test('is noticed when it goes, long before the next write', () => {
    expect(run('watch 60000 gone | head -1')).toEqual({ statuses: '3 0', stderr: '' });
  });

  test('is there as long as it reads', () => {
    expect(run('watch 300 gone | cat')).toEqual({ statuses: '0 0', stderr: '' });
  });

  test('is not asked for where output goes to a file, or no tail is there', () => {
    expect(run('watch 300 gone > /dev/null')).toEqual({ statuses: '0', stderr: '' });
    expect(run('PATH=/nonexistent watch 300 gone | { read -r line; }')).toEqual({
      statuses: '0 0',
      stderr: '',
    });
  });
});
