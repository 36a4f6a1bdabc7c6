import { execFileSync } from 'node:child_process';
import { describe, expect, test } from '@jest/globals';
import { quoteWords } from '../../../../lib/text/shell-words.ts';

describe('words that are to be pasted into a shell', () => {
  test('are told as they are where that is safe, else quoted', () => {
    expect(quoteWords(['--vip=10.0.0.50:6443', 'a b', "it's", '$(id)', '', '\n'])).toBe(
      String.raw`--vip=10.0.0.50:6443 'a b' 'it'\''s' '$(id)' '' $'\n'`,
    );
  });

  test('are the same words to bash', () => {
    const words = [
      "'; echo x; '",
      '`id`',
      '$(id)',
      '\u001b[2J',
      "a\\'\n\tb",
      '\u202e',
      '!',
      '*',
      '\\n',
      '~',
      'ü',
    ];
    const bash = `printf '%s\\0' ${quoteWords(words)}`;
    const output = execFileSync('bash', ['-c', bash], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { LC_ALL: 'C.UTF-8' },
    });
    expect(output.split('\0').slice(0, -1)).toEqual(words);
  });
});
