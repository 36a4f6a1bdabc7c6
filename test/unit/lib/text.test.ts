import { describe, test, expect } from '@jest/globals';
import { quoteWords, toPrintable, toPrintableLine, toPrintableJson, findNearest } from '../../../lib/text.ts';
import { execFileSync } from 'node:child_process';
import { VipnatError } from '../../../lib/errors.ts';

describe('words that are to be pasted into a shell', () => {
  test('are told as they are where that is safe, else quoted', () => {
    expect(quoteWords(['--vip=10.0.0.50:6443', 'a b', "it's", '$(id)', '', '\n'])).toBe(
      String.raw`--vip=10.0.0.50:6443 'a b' 'it'\''s' '$(id)' '' $'\n'`,
    );
  });

  test('are the same words to bash', () => {
    const words = [
      ...["'; echo x; '", '`id`', '$(id)', '\u001b[2J', "a\\'\n\tb", '\u202e', '!', '*', '\\n'],
      ...['~', 'ü'],
    ];
    const bash = `printf '%s\\0' ${quoteWords(words)}`;
    const output = execFileSync('bash', ['-c', bash], {
      ...{ encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], env: { LC_ALL: 'C.UTF-8' } },
    });
    expect(output.split('\0').slice(0, -1)).toEqual(words);
  });
});

describe('what others say, as it is printed', () => {
  test.each([
    ['\u001b[2J\u001b[31mred', String.raw`\u001b[2J\u001b[31mred`],
    ['\u009b31m', String.raw`\u009b31m`],
    ['a\rb\0c\u007f', String.raw`a\u000db\u0000c\u007f`],
    ['\u202etxt.exe \u2028', String.raw`\u202etxt.exe \u2028`],
    ['\ud800', String.raw`\ud800`],
    ['10.0.0.50:6443 · größer – 𝕳', '10.0.0.50:6443 · größer – 𝕳'],
    ['*nat\n\tCOMMIT\n', '*nat\n\tCOMMIT\n'],
  ])('%j cannot move a cursor, colour or turn round what follows', (text, printed) => {
    expect(toPrintable(text)).toBe(printed);
  });

  test('as a line has no second one', () => {
    expect(toPrintableLine('it\n  failed\n')).toBe('it failed');
    expect(toPrintableLine('  indented')).toBe('  indented');
  });

  test('as JSON is the same value', () => {
    const value = { text: '\u001b \u009b \u202e \u2028', list: ['\n'] };
    expect(toPrintableJson(value)).not.toMatch(/[\u009b\u202e\u2028]/u);
    expect(JSON.parse(toPrintableJson(value))).toEqual(value);
  });

  test('is so in the message of every error', () => {
    expect(new VipnatError('TOOL_FAILED', 'nft failed: \u001b]0;title\u0007').message).toBe(
      String.raw`nft failed: \u001b]0;title\u0007`,
    );
  });
});

const names = ['vip', 'mode', 'proxyMode', 'clusterIp', 'endpoints', 'logLevel', 'logFormat'];

const typos = {
  ...{ vpi: 'vip', vips: 'vip', 'proxy-mode': 'proxyMode', PROXY_MDOE: 'proxyMode' },
  ...{ endpoint: 'endpoints', loglvel: 'logLevel' },
};
test.each(Object.entries(typos))('%s most likely means %s', (word, nearest) => {
  expect(findNearest(word, names)).toBe(nearest);
});

test.each(['', 'kubeconfig', 'x'.repeat(100_000)])('nothing is near to %.20s', (word) => {
  expect(findNearest(word, names)).toBeNull();
});
