import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { completion } from '../../../../agent/cli/completion/completion.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'vipnat-completion-'));
  writeFileSync(join(folder, 'script'), completion('bash'));
  writeFileSync(join(folder, 'my vipnat.yaml'), '');
  mkdirSync(join(folder, 'my-folder'));
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

/** What an interactive bash on a terminal calls vipnat with, when somebody types this; `\t` is the key. */
function type(line: string): string | undefined {
  const shell = 'bash --norc --noprofile -i';
  const { stdout } = spawnSync('script', ['--quiet', '--command', shell, '/dev/null'], {
    cwd: folder,
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], TERM: 'dumb' },
    input: `source ./script\nvipnat() { printf '<%s>' "got" "$@"; echo; }\nvipnat ${line}\nexit\n`,
    timeout: 20_000,
  });
  return /^<got>(.*?)\r?$/m.exec(stdout)?.[1];
}

test.each([
  ['sta\t', '<status>'],
  ['status --js\t', '<status><--json>'],
  ['run --proxy-mode ipt\t', '<run><--proxy-mode><iptables>'],
  ['run --proxy-mode=ipt\t', '<run><--proxy-mode=iptables>'],
  ['manifest daem\t --image x', '<manifest><daemonset><--image><x>'],
  ['run --config my\\ \t', '<run><--config><my vipnat.yaml>'],
  ['run --state-dir my\t', '<run><--state-dir><my-folder/>'],
  ['help kee\t', '<help><keepalived>'],
])('bash completes %j', (line, words) => {
  expect(type(line)).toBe(words);
});

test('a shell that is none is refused', () => {
  expect(() => completion('tcsh')).toThrow(
    'tcsh is none of bash, zsh, fish. Example: vipnat completion bash',
  );
});
